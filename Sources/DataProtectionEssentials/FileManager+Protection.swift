import FoundationEssentials
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

// Calls of this module for the class of a file or directory. FileManager+Attributes.swift has Foundation's.
extension FileManager {
  /// Sets the class of a file or directory. A symbolic link is followed.
  ///
  /// The call does not rewrite a file's contents: it wraps the file's key again. A directory's class applies to what is
  /// created in it from then on; ``setProtection(_:ofTreeAt:progress:)`` also changes what is in it.
  /// - Throws: `CocoaError.fileWriteNoPermission` (513) if the old or the new class is locked,
  ///   `CocoaError.featureUnsupported` if the path is not on a protectfs mount. ``ProtectedDataError`` gives the
  ///   reason.
  public func setProtection(_ protection: FileProtectionType, ofItemAt url: URL) throws {
    let path = try Self.path(of: url)
    let protectionClass = try protection.protectionClass
    try translating(.writing, path, asking: protectionClass) { () throws(Errno) in
      try protectionClass.assign(toItemAt: path)
    }
  }

  /// The class of a file or directory. A symbolic link is followed. Available in every state, also while locked.
  ///
  /// - Throws: `CocoaError.featureUnsupported` if the path is not on a protectfs mount, or the error of accessing the
  ///   path.
  public func protection(ofItemAt url: URL) throws -> FileProtectionType {
    let path = try Self.path(of: url, for: .reading)
    return try translating(.reading, path) { () throws(Errno) in
      FileProtectionType(try ProtectionClass(ofItemAt: path))
    }
  }

  /// The path of the directory that contains a path's last component.
  package static func parent(of path: String) -> String {
    URL(fileURLWithPath: path).deletingLastPathComponent().path(percentEncoded: false)
  }

  /// The path of a file URL.
  package static func path(of url: URL, for access: CocoaError.Access = .writing) throws -> String {
    guard url.isFileURL else {
      throw CocoaError(.fileReadUnsupportedScheme, userInfo: [NSURLErrorKey: url])
    }
    let path = url.path(percentEncoded: false)
    try refuseNUL(in: path, access)
    return path
  }

  /// Refuses a path with a NUL, as Foundation does elsewhere. Its calls on Linux, and the kernel, take what is before
  /// the NUL for the path, which is that of another file.
  package static func refuseNUL(in path: String, _ access: CocoaError.Access = .writing) throws(CocoaError) {
    guard path.utf8.contains(0) else { return }
    let code: CocoaError.Code = access == .reading ? .fileReadInvalidFileName : .fileWriteInvalidFileName
    throw CocoaError(code, userInfo: [NSFilePathErrorKey: path])
  }
}
