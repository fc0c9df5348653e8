import Foundation
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

/// Why a file on a protectfs mount could not be used: told apart from what Foundation reports with one code.
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
///   }
/// }
/// ```
public struct ProtectedDataError: Error, LocalizedError, CustomNSError, Sendable {
  /// What is in the way.
  public enum Reason: Sendable, Hashable {
    /// The class is locked, until what is told.
    case locked(ProtectionClass, until: ProtectionStatus.Return)
    /// Mode bits or an ACL do not let this user; no unlock changes that.
    case permissions
    /// The key of the class was erased, reset or rotated away: the file has to be imported anew,
    /// see ``FoundationEssentials/FileManager/recreateRevokedItem(at:importing:)``.
    case keyRevoked
    /// The path is on no protectfs mount.
    case notProtected
  }

  /// What is in the way.
  public let reason: Reason
  /// The file.
  public let url: URL
  /// What Foundation reports: `fileReadNoPermission` (257) or `fileWriteNoPermission` (513) for what is locked or not
  /// permitted.
  public let cocoaError: CocoaError

  /// Finds out why a call of Foundation's, or one of this module's, has failed; `nil` for an error that has another cause.
  ///
  /// Looks at the file as it is now: an unlock that came meanwhile makes it `nil` too, and the call may be tried again.
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
    if number == Errno(rawValue: EKEYREVOKED) { return .keyRevoked }
    if number == .notSupported, error.code == .featureUnsupported { return .notProtected }
    guard error.code == .fileReadNoPermission || error.code == .fileWriteNoPermission else { return nil }
    if let asked = classAsked(of: error, path) { return asked }
    // Who may not read a file is not told its class either.
    guard let status = try? status(of: path) else { return .permissions }
    return switch status.obstacle {
    case .classLocked: .locked(status.protectionClass, until: status.returns ?? .unlock)
    case .keyRevoked: .keyRevoked
    case .permissions: .permissions
    case nil:
      // What can be read may still not be writable.
      error.code == .fileWriteNoPermission && !FileManager.default.isWritableFile(atPath: path) ? .permissions : nil
    }
  }

  /// A call of this module that asked for a class which is locked; the file itself may be of another.
  private static func classAsked(of error: CocoaError, _ path: String) -> Reason? {
    guard let name = unsafe error.userInfo[CocoaError.protectionClassKey] as? String,
      let asked = ProtectionClass(name: name),
      let state = try? LockState(ofMountAt: FileManager.parent(of: path)),
      ProtectionPolicy.keyAvailability(of: asked, in: state) != .available
    else { return nil }
    return .locked(asked, until: ProtectionStatus.Return(in: state))
  }

  /// The error number that Foundation has put beneath: a `POSIXError`, or an `NSError` of its domain.
  private static func number(beneath error: CocoaError) -> Errno? {
    guard let underlying = unsafe error.userInfo[NSUnderlyingErrorKey] as? any Error else { return nil }
    let bridged = underlying as NSError
    return bridged.domain == NSPOSIXErrorDomain ? Errno(rawValue: CInt(bridged.code)) : nil
  }

  /// The status of the file, or of the directory in which it could not be created.
  private static func status(of path: String) throws(Errno) -> ProtectionStatus {
    do throws(Errno) {
      return try ProtectionStatus(ofItemAt: path)
    } catch .noSuchFileOrDirectory {
      return try ProtectionStatus(ofItemAt: FileManager.parent(of: path))
    }
  }

  // MARK: For people

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

  /// `ProtectedDataErrorDomain`
  public static let errorDomain = "ProtectedDataErrorDomain"

  /// Foundation's code, so that what compares codes goes on working.
  public var errorCode: Int { cocoaError.code.rawValue }

  /// Foundation's error as the underlying one.
  public var errorUserInfo: [String: Any] {
    [NSURLErrorKey: url, NSUnderlyingErrorKey: cocoaError, NSLocalizedDescriptionKey: errorDescription ?? ""]
  }
}
