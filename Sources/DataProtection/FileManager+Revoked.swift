import Foundation
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

extension FileManager {
  /// Brings back a file whose class key is no more, after a reset or an erasure: deletes what nobody can open, creates it
  /// anew in its class, and imports its content again. CloudKit asks for the same three steps when the user has reset
  /// their encrypted data.
  ///
  /// The three happen as one: where `importing` throws, the old file stays as it is.
  /// - Parameters:
  ///   - url: the file, whose opening fails with `EKEYREVOKED`; others are refused, so that nothing readable is lost.
  ///   - importing: writes the content to the empty file at the URL that it is given.
  /// - Throws: `CocoaError.fileWriteFileExists` for a file that is not revoked, `CocoaError.fileWriteNoPermission` (513)
  ///   where its class is locked, and what `importing` throws.
  public func recreateRevokedItem(at url: URL, importing: (URL) throws -> Void) throws {
    let path = try Self.path(of: url)
    let status = try translating(.reading, path) { () throws(Errno) in try ProtectionStatus(ofItemAt: path) }
    guard status.obstacle == .keyRevoked else {
      throw CocoaError(
        .fileWriteFileExists,
        userInfo: [NSFilePathErrorKey: path, NSDebugDescriptionErrorKey: "the key of this file is not revoked"])
    }
    let protectionClass = status.protectionClass
    let file = try translating(.writing, path, asking: protectionClass) { () throws(Errno) in
      try StagedFile(for: FinalTarget.of(path), in: protectionClass)
    }
    try importing(URL(fileURLWithPath: file.path))
    do throws(Errno) {
      try file.commit()
    } catch {
      throw CocoaError(error, .writing, path: path, asking: protectionClass)
    }
  }
}
