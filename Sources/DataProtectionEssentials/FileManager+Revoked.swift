import FoundationEssentials
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

extension FileManager {
  /// Recreates a file whose class key is gone after a reset or an erasure: deletes the file, which cannot be opened,
  /// creates it in its class, and imports its content. CloudKit asks for the same three steps when a user has reset
  /// their encrypted data.
  ///
  /// The three steps are atomic: if `importing` throws, the old file is unchanged. The encrypted fields of a revoked
  /// file are lost like its content, and the new file does not have them. Those of a directory are under another key:
  /// a directory needs no recreation.
  /// - Parameters:
  ///   - url: the file, whose opening fails with `EKEYREVOKED`. Other files are refused, so that nothing readable is
  ///     lost.
  ///   - importing: writes the content to the empty file at the URL that it gets.
  /// - Returns: the keys of the encrypted fields that were lost with the file's key. `importing` may set them again.
  /// - Throws: `CocoaError.fileWriteFileExists` for a file whose key is not revoked, `CocoaError.fileWriteNoPermission`
  ///   (513) if its class is locked, or the error of `importing`.
  @discardableResult
  public func recreateRevokedItem(at url: URL, importing: (URL) throws -> Void) throws -> [String] {
    let path = try Self.path(of: url)
    let status = try translating(.reading, path) { () throws(Errno) in try ProtectionStatus(ofItemAt: path) }
    guard status.obstacle == .keyRevoked else {
      throw CocoaError(
        .fileWriteFileExists,
        userInfo: [NSFilePathErrorKey: path, NSDebugDescriptionErrorKey: "the key of this file is not revoked"])
    }
    let protectionClass = status.protectionClass
    let file = try translating(.writing, path, asking: protectionClass) { () throws(Errno) in
      try StagedFile(for: FinalTarget.of(path), in: protectionClass, revokedFields: .drop)
    }
    let lost = file.lostFields.map(FieldName.key).sorted()
    try importing(URL(fileURLWithPath: file.path))
    do throws(Errno) {
      try file.commit()
    } catch {
      throw CocoaError(error, .writing, path: path, asking: protectionClass)
    }
    return lost
  }
}
