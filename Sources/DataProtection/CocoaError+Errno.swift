import Foundation
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

extension CocoaError {
  /// The kind of call, which selects Foundation's codes from 256 (reading) or from 512 (writing).
  enum Access {
    case reading, writing
  }

  /// Foundation's error for an error number, with the path and the number as the underlying error.
  ///
  /// Source: the table in swift-foundation's `CocoaError(fileErrno:reading:)`: EACCES and EPERM are 257 and 513.
  /// - Parameter protectionClass: the class that the call requested.
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

  /// The name of the class that a call of this module requested.
  static let protectionClassKey = "ProtectionClass"

  private static func underlying(_ error: Errno) -> NSError {
    NSError(domain: NSPOSIXErrorDomain, code: Int(error.rawValue))
  }

  /// The error for a request of a class where there are none.
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

/// Calls `body`, and translates its error number to Foundation's error.
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
