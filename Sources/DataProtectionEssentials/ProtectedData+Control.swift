import FoundationEssentials
import ProtectfsClient

// What the mount's owner and root may do, from tasks. Other calls to the daemon are in `DaemonConnection`.
extension ProtectedData {
  /// Returns the state of the daemon of a mount.
  ///
  /// - Parameter url: a path on the mount.
  /// - Throws: ``ControlError/Code-swift.enum/cancelled`` as soon as the task is cancelled, also if the daemon does not
  ///   answer.
  public static func status(at url: URL) async throws(ControlError) -> DaemonStatus {
    try await DaemonConnection.status(at: url.path(percentEncoded: false))
  }

  /// Locks a mount.
  ///
  /// - Parameters:
  ///   - url: a path on the mount.
  ///   - gracePeriod: how long everything stays usable after the announcement; `nil` for the mount's own period.
  ///   - waiting: whether to return only when the lock has taken effect.
  /// - Throws: ``ControlError/Code-swift.enum/lockCancelled`` if an unlock came first;
  ///   ``ControlError/Code-swift.enum/cancelled`` as soon as the task is cancelled. The lock takes effect all the same.
  public static func lock(
    at url: URL, gracePeriod: Duration? = nil, waiting: Bool = true
  ) async throws(ControlError) {
    try await DaemonConnection.lock(at: url.path(percentEncoded: false), gracePeriod: gracePeriod, waiting: waiting)
  }

  /// Unlocks a mount with a passcode, or cancels a lock during its grace period. Checking the passcode takes about a
  /// second.
  ///
  /// ```swift
  /// var passcode: [UInt8] = readPasscode()
  /// defer { wipe(&passcode) }
  /// try await ProtectedData.unlock(at: url, passcode: passcode.span)
  /// ```
  ///
  /// - Parameters:
  ///   - url: a path on the mount.
  ///   - passcode: the passcode in UTF-8, in memory that the caller wipes. It is copied once, to memory that is wiped.
  /// - Throws: ``ControlError/Code-swift.enum/wrongPasscode``, ``ControlError/Code-swift.enum/unlockCancelled`` if a
  ///   lock was requested in that second, and ``ControlError/Code-swift.enum/cancelled`` as soon as the task is
  ///   cancelled. The mount may be unlocked all the same then.
  public static func unlock(at url: URL, passcode: Span<UInt8>) async throws(ControlError) {
    try await DaemonConnection.unlock(at: url.path(percentEncoded: false), .passcode, passcode)
  }

  /// Unlocks a mount with the recovery key that `protectfs init` printed, in UTF-8.
  ///
  /// - Throws: as ``unlock(at:passcode:)``.
  public static func unlock(at url: URL, recoveryKey: Span<UInt8>) async throws(ControlError) {
    try await DaemonConnection.unlock(at: url.path(percentEncoded: false), .recoveryKey, recoveryKey)
  }

  /// Unlocks a mount with the content of a key file, 32 to 1024 bytes.
  ///
  /// - Throws: as ``unlock(at:passcode:)``.
  public static func unlock(at url: URL, keyFile: Span<UInt8>) async throws(ControlError) {
    try await DaemonConnection.unlock(at: url.path(percentEncoded: false), .keyFile, keyFile)
  }
}
