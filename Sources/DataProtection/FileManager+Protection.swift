import Foundation
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

// The class of a file or a directory, by calls of this module's own. FileManager+Attributes.swift has Foundation's.
extension FileManager {
  /// Puts a file or directory into a class. A symbolic link is followed.
  ///
  /// Of a file not a byte is written: its key is wrapped anew. A directory's class is that of what is created in it from
  /// then on; ``setProtection(_:ofTreeAt:progress:)`` changes what is in it too.
  /// - Throws: `CocoaError.fileWriteNoPermission` (513) where the old class or the new one is locked,
  ///   `CocoaError.featureUnsupported` where the path is on no protectfs mount. ``ProtectedDataError`` tells why.
  public func setProtection(_ protection: FileProtectionType, ofItemAt url: URL) throws {
    let path = try Self.path(of: url)
    let protectionClass = try protection.protectionClass
    try translating(.writing, path, asking: protectionClass) { () throws(Errno) in
      try protectionClass.assign(toItemAt: path)
    }
  }

  /// The class of a file or directory. A symbolic link is followed. Told in every state, also while locked.
  ///
  /// - Throws: `CocoaError.featureUnsupported` where the path is on no protectfs mount, and what looking there fails with.
  public func protection(ofItemAt url: URL) throws -> FileProtectionType {
    let path = try Self.path(of: url)
    return try translating(.reading, path) { () throws(Errno) in
      FileProtectionType(try ProtectionClass(ofItemAt: path))
    }
  }

  /// The path of the directory that a path's last component is in.
  static func parent(of path: String) -> String {
    URL(fileURLWithPath: path).deletingLastPathComponent().path(percentEncoded: false)
  }

  /// The path of a file URL.
  static func path(of url: URL) throws -> String {
    guard url.isFileURL else {
      throw CocoaError(.fileReadUnsupportedScheme, userInfo: [NSURLErrorKey: url])
    }
    return url.path(percentEncoded: false)
  }
}
