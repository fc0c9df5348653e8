import FoundationEssentials
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

extension CocoaError {
  /// The kind of call, which selects Foundation's codes from 256 (reading) or from 512 (writing).
  package enum Access {
    case reading, writing
  }

  /// Foundation's error for an error number, with the path and the number as the underlying error.
  ///
  /// Source: the table in swift-foundation's `CocoaError(fileErrno:reading:)`: EACCES and EPERM are 257 and 513.
  /// - Parameter protectionClass: the class that the call requested.
  package init(_ error: Errno, _ access: Access, path: String, asking protectionClass: ProtectionClass? = nil) {
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
    // Whether it is a directory, a file system that does not answer is not asked.
    let url = error == .timedOut ? URL(filePath: path, directoryHint: .inferFromPath) : URL(fileURLWithPath: path)
    var information: [String: Any] = [
      NSFilePathErrorKey: path, NSURLErrorKey: url,
      NSUnderlyingErrorKey: Self.underlying(error),
    ]
    if let protectionClass { information[Self.protectionClassKey] = protectionClass.name }
    self.init(code, userInfo: information)
  }

  /// The name of the class that a call of this module requested.
  package static let protectionClassKey = "ProtectionClass"

  /// As in Foundation's own errors.
  private static func underlying(_ error: Errno) -> any Error {
    POSIXError.Code(rawValue: error.rawValue).map { POSIXError($0) } ?? error
  }

  /// The error for a request of a class where there are none.
  package static func notProtected(_ path: String) -> CocoaError {
    CocoaError(
      .featureUnsupported,
      userInfo: [
        NSFilePathErrorKey: path, NSURLErrorKey: URL(fileURLWithPath: path),
        NSUnderlyingErrorKey: underlying(.notSupported),
        NSLocalizedDescriptionKey:
          "\(path) is not on a protectfs mount, so it cannot have a protection class; mount one with 'protectfs mount'",
      ])
  }

  /// The error for an item that others have changed while it was moved by a copy.
  static func changedMeanwhile(_ path: String) -> CocoaError {
    CocoaError(
      .fileWriteUnknown,
      userInfo: [
        NSFilePathErrorKey: path, NSURLErrorKey: URL(fileURLWithPath: path),
        NSUnderlyingErrorKey: underlying(.resourceBusy),
        NSLocalizedDescriptionKey:
          "\(path) was changed by others while it was copied to another file system: what was not copied is kept.",
      ])
  }

  /// The error for a copy that would have neither the class nor the fields of its original.
  static func wouldBePlaintext(_ source: String, _ target: String) -> CocoaError {
    CocoaError(
      .featureUnsupported,
      userInfo: [
        NSFilePathErrorKey: source, NSURLErrorKey: URL(fileURLWithPath: source),
        NSUnderlyingErrorKey: underlying(.notSupported),
        NSLocalizedDescriptionKey:
          "\(source) is protected, and \(target) is not on a protectfs mount: the copy would be plaintext without class "
          + "and fields. 'allowingPlaintext: true' permits that.",
      ])
  }
}

/// Calls `body`, and translates its error number to Foundation's error.
package func translating<Result: ~Copyable>(
  _ access: CocoaError.Access, _ path: String, asking protectionClass: ProtectionClass? = nil,
  _ body: () throws(Errno) -> Result
) throws(CocoaError) -> Result {
  do throws(Errno) {
    return try body()
  } catch {
    throw error == .notSupported ? .notProtected(path) : CocoaError(error, access, path: path, asking: protectionClass)
  }
}
