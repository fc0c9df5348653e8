import FoundationEssentials
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

/// The availability of protected data, which UIKit reports for the device, for each protectfs mount.
///
/// A path identifies the mount that contains it. If there is no mount, nothing is available.
public enum ProtectedData {
  /// Whether files of class ``ProtectionClass/complete`` can be used, like `UIApplication.isProtectedDataAvailable`:
  /// `true` while unlocked and in the grace period of a lock, `false` if nothing is mounted.
  public static func isAvailable(at url: URL) -> Bool {
    isAvailable(.complete, at: url)
  }

  /// Whether files of a class can be opened.
  public static func isAvailable(_ protectionClass: ProtectionClass, at url: URL) -> Bool {
    guard let state = try? state(at: url) else { return false }
    return protectionClass.canBeOpened(in: state)
  }

  /// The state of the mount.
  ///
  /// - Throws: `CocoaError.featureUnsupported` if the path is not on a protectfs mount.
  public static func state(at url: URL) throws -> LockState {
    let path = try FileManager.path(of: url)
    return try translating(.reading, path) { () throws(Errno) in try LockState(ofMountAt: path) }
  }

  /// The changes of a mount as they happen. The first event gives the current availability.
  ///
  /// The sequence continues when the daemon is started again or the store is mounted later; meanwhile, what was
  /// available is reported as unavailable. It ends with the task that listens. However many listen to a mount, they
  /// share one connection for events and one that delays locks, on one thread; another thread watches the mounts.
  /// A slow listener delays no other.
  ///
  /// Only the mount's owner and root may query the daemon. For other users the state is read once a second: an
  /// announcement may come a second late, cannot delay the lock, and is missed if the grace period is shorter.
  /// - Parameters:
  ///   - url: a path on the mount. If nothing may be mounted yet, use the mount point itself.
  ///   - protectionClass: the class whose availability is reported.
  ///   - delayingLocks: whether a lock waits, for a bounded time, for the ``LockHold`` of its announcement. Has no
  ///     effect for classes that a lock does not take.
  public static func events(
    at url: URL, of protectionClass: ProtectionClass = .complete, delayingLocks: Bool = false
  ) -> ProtectedDataEvents {
    let mount = FollowedMount(path: url.path(percentEncoded: false))
    return ProtectedDataEvents(mount: mount, protectionClass: protectionClass, delaysLocks: delayingLocks)
  }

  /// Waits until files of a class can be opened. Returns at once if they can.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  public static func waitUntilAvailable(
    at url: URL, of protectionClass: ProtectionClass = .complete
  ) async throws(CancellationError) {
    for await event in events(at: url, of: protectionClass) {
      if case .didBecomeAvailable = event { return }
    }
    throw CancellationError()
  }
}
