import Foundation
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

extension CocoaError {
  /// What a call was for, which decides between Foundation's codes of 256 and up and those of 512 and up.
  enum Access {
    case reading, writing
  }

  /// The error that Foundation makes of an error number, with the path and the number beneath.
  ///
  /// Source: the table in swift-foundation's `CocoaError(fileErrno:reading:)`: EACCES and EPERM are 257 and 513.
  /// - Parameter protectionClass: the class that was asked for.
  init(_ error: Errno, _ access: Access, path: String, asking protectionClass: ProtectionClass? = nil) {
    let code: Code =
      switch (error, access) {
      case (.permissionDenied, .reading), (.notPermitted, .reading): .fileReadNoPermission
      case (.permissionDenied, .writing), (.notPermitted, .writing): .fileWriteNoPermission
      case (.noSuchFileOrDirectory, .reading): .fileReadNoSuchFile
      case (.noSuchFileOrDirectory, .writing): .fileNoSuchFile
      case (.fileNameTooLong, .reading), (.invalidArgument, .reading): .fileReadInvalidFileName
      case (.fileNameTooLong, .writing): .fileWriteInvalidFileName
      case (.fileTooLarge, .reading): .fileReadTooLarge
      case (.noSpace, .writing), (.diskQuotaExceeded, .writing): .fileWriteOutOfSpace
      case (.readOnlyFileSystem, .writing): .fileWriteVolumeReadOnly
      case (.fileExists, .writing): .fileWriteFileExists
      case (.notSupported, _): .featureUnsupported
      case (_, .reading): .fileReadUnknown
      case (_, .writing): .fileWriteUnknown
      }
    var information: [String: Any] = [
      NSFilePathErrorKey: path, NSURLErrorKey: URL(fileURLWithPath: path),
      NSUnderlyingErrorKey: Self.underlying(error),
    ]
    if let protectionClass { information[Self.protectionClassKey] = protectionClass.name }
    self.init(code, userInfo: information)
  }

  /// The name of the class that a call of this module was asked for.
  static let protectionClassKey = "ProtectionClass"

  private static func underlying(_ error: Errno) -> NSError {
    NSError(domain: NSPOSIXErrorDomain, code: Int(error.rawValue))
  }

  /// A class was asked for where there is none.
  static func notProtected(_ path: String) -> CocoaError {
    CocoaError(
      .featureUnsupported,
      userInfo: [
        NSFilePathErrorKey: path, NSURLErrorKey: URL(fileURLWithPath: path),
        NSUnderlyingErrorKey: underlying(.notSupported),
        NSLocalizedDescriptionKey:
          "\(path) is not on a protectfs mount, so it cannot have a protection class; mount one with 'protectfs mount'",
      ])
  }
}

/// Calls `body`, and turns its error number into Foundation's error.
func translating<Result: ~Copyable>(
  _ access: CocoaError.Access, _ path: String, asking protectionClass: ProtectionClass? = nil,
  _ body: () throws(Errno) -> Result
) throws(CocoaError) -> Result {
  do throws(Errno) {
    return try body()
  } catch {
    throw error == .notSupported ? .notProtected(path) : CocoaError(error, access, path: path, asking: protectionClass)
  }
}
