import Foundation
import ProtectfsClient
import ProtectfsPolicy

/// The part of UIKit's class that concerns protected data, for code written for it.
///
/// It represents one mount, the device's: the one named by `PROTECTFS_MOUNT_POINT` in the environment, otherwise the
/// first that this user has mounted, otherwise the first of all. Programs that know their mount use ``ProtectedData``.
public final class UIApplication: Sendable {
  /// The only instance.
  public static let shared = UIApplication()

  private init() {}

  /// Whether files of class ``ProtectionClass/complete`` can be used. `false` if nothing is mounted.
  public var isProtectedDataAvailable: Bool {
    guard let mount = FollowedMount().current else { return false }
    return ProtectedData.isAvailable(at: URL(fileURLWithPath: mount.mountPoint))
  }

  /// Posted when a lock was announced, on a separate thread. The lock waits, for a bounded time, until all observers
  /// have returned.
  public static var protectedDataWillBecomeUnavailableNotification: Notification.Name {
    ProtectedDataNotifications.start()
    return ProtectedDataNotifications.willBecomeUnavailable
  }

  /// Posted when files of class ``ProtectionClass/complete`` can be used again, on a separate thread: after an unlock,
  /// and after an unlock that cancelled a lock.
  public static var protectedDataDidBecomeAvailableNotification: Notification.Name {
    ProtectedDataNotifications.start()
    return ProtectedDataNotifications.didBecomeAvailable
  }
}

/// Posts to the default notification center, from the first access to a notification's name on.
private enum ProtectedDataNotifications {
  static let willBecomeUnavailable = Notification.Name("UIApplicationProtectedDataWillBecomeUnavailable")
  static let didBecomeAvailable = Notification.Name("UIApplicationProtectedDataDidBecomeAvailable")

  private static let follower: MountFollower = {
    // The current availability is not a change. Later changes are posted.
    let wasAvailable = UIApplication.shared.isProtectedDataAvailable
    let follower = MountFollower(FollowedMount(), .complete, delaysLocks: true, wasAvailable: wasAvailable) { event in
      switch event {
      case .willBecomeUnavailable(let hold):
        NotificationCenter.default.post(name: willBecomeUnavailable, object: UIApplication.shared)
        hold.release()
      case .didBecomeAvailable:
        NotificationCenter.default.post(name: didBecomeAvailable, object: UIApplication.shared)
      case .didBecomeUnavailable: break
      }
    }
    follower.start()
    return follower
  }()

  static func start() {
    _ = follower
  }
}
