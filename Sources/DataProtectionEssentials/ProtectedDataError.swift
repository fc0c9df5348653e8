import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The reason why a file on a protectfs mount could not be used. Foundation reports all these reasons with one code.
///
/// ```swift
/// do {
///   diary = try Data(contentsOf: url)
/// } catch {
///   guard let reason = ProtectedDataError(diagnosing: error)?.reason else { throw error }
///   switch reason {
///   case .locked: try await ProtectedData.waitUntilAvailable(at: url)
///   case .keyRevoked: showImport()
///   case .permissions, .notProtected: throw error
///   @unknown default: throw error
///   }
/// }
/// ```
public struct ProtectedDataError: Error, LocalizedError, Sendable {
  /// The possible reasons. Later versions may add others.
  @nonexhaustive
  public enum Reason: Sendable, Hashable {
    /// The class is locked until the given event.
    case locked(ProtectionClass, until: ProtectionStatus.Return)
    /// Mode bits or an ACL deny this user access. An unlock does not change that.
    case permissions
    /// The key of the class was erased, reset or rotated away. The file has to be imported again; see
    /// ``FoundationEssentials/FileManager/recreateRevokedItem(at:importing:)``.
    case keyRevoked
    /// The path is not on a protectfs mount.
    case notProtected
  }

  /// The reason.
  public let reason: Reason
  /// The file.
  public let url: URL
  /// Foundation's error: `fileReadNoPermission` (257) or `fileWriteNoPermission` (513) for a locked class or missing
  /// permissions.
  public let cocoaError: CocoaError

  /// Finds out why a call of Foundation or of this module has failed; `nil` for an error with another cause.
  ///
  /// Examines the file as it is now: after an unlock in the meantime the result is also `nil`, and the call may be
  /// tried again.
  /// - Parameter url: the file; `nil` for the one that the error names.
  public init?(diagnosing error: any Error, at url: URL? = nil) {
    guard let cocoaError = error as? CocoaError, let url = url ?? Self.url(in: cocoaError),
      let path = try? FileManager.path(of: url), let reason = Self.reason(for: cocoaError, path)
    else { return nil }
    self.reason = reason
    self.url = url
    self.cocoaError = cocoaError
  }

  private static func url(in error: CocoaError) -> URL? {
    let information = unsafe error.userInfo
    if let url = information[NSURLErrorKey] as? URL { return url }
    return (information[NSFilePathErrorKey] as? String).map { URL(fileURLWithPath: $0) }
  }

  private static func reason(for error: CocoaError, _ path: String) -> Reason? {
    let number = number(beneath: error)
    if number == .keyRevoked { return .keyRevoked }
    if number == .notSupported, error.code == .featureUnsupported { return .notProtected }
    guard error.code == .fileReadNoPermission || error.code == .fileWriteNoPermission else { return nil }
    if let asked = classAsked(of: error, path) { return asked }
    // A user who may not read a file may not read its class either.
    guard let status = try? status(of: path) else { return .permissions }
    return switch status.obstacle {
    case .classLocked: .locked(status.protectionClass, until: status.returns ?? .unlock)
    case .keyRevoked: .keyRevoked
    case .permissions: .permissions
    case nil:
      // A readable file need not be writable.
      error.code == .fileWriteNoPermission && !FileManager.default.isWritableFile(atPath: path) ? .permissions : nil
    }
  }

  /// The reason if a call of this module requested a class that is locked. The file itself may have another class.
  private static func classAsked(of error: CocoaError, _ path: String) -> Reason? {
    guard let name = unsafe error.userInfo[CocoaError.protectionClassKey] as? String,
      let asked = ProtectionClass(name: name),
      let state = try? LockState(ofMountAt: FileManager.parent(of: path)),
      ProtectionPolicy.keyAvailability(of: asked, in: state) != .available
    else { return nil }
    return .locked(asked, until: ProtectionStatus.Return(in: state))
  }

  /// The underlying error number: that of a `POSIXError`, or of an `NSError` in its domain.
  private static func number(beneath error: CocoaError) -> Errno? {
    guard let underlying = unsafe error.userInfo[NSUnderlyingErrorKey] as? any Error else { return nil }
    if let number = underlying as? Errno { return number }
    if let error = underlying as? POSIXError { return Errno(rawValue: error.code.rawValue) }
    // What FoundationEssentials sees of an NSError.
    return underlying._domain == NSPOSIXErrorDomain ? Errno(rawValue: CInt(underlying._code)) : nil
  }

  /// The status of the file, or of the directory in which it could not be created.
  private static func status(of path: String) throws(Errno) -> ProtectionStatus {
    do throws(Errno) {
      return try ProtectionStatus(ofItemAt: path)
    } catch .noSuchFileOrDirectory {
      return try ProtectionStatus(ofItemAt: FileManager.parent(of: path))
    }
  }

  // MARK: For users

  /// A sentence that says what to do.
  public var errorDescription: String? {
    let path = url.path(percentEncoded: false)
    return switch reason {
    case .locked(let protectionClass, .firstUnlock):
      "\(path) is of class \(protectionClass.name), which becomes available with the first unlock."
    case .locked(let protectionClass, .unlock):
      "\(path) is of class \(protectionClass.name), which is locked now; an unlock makes it available."
    case .permissions: "\(path) may not be used by this user: its permissions say so, not its class."
    case .keyRevoked: "The class key of \(path) is no more; only a copy of it from elsewhere brings it back."
    case .notProtected: "\(path) is not on a protectfs mount."
    }
  }
}
