import Foundation
import ProtectfsClient
import ProtectfsPolicy

/// The part of UIKit's class that is about protected data, so that code written for it finds what it uses.
///
/// It speaks of one mount, the device's: the one that `PROTECTFS_MOUNT_POINT` in the environment names, else the first that
/// this user has mounted, else the first there is. Programs that know their mount use ``ProtectedData``.
public final class UIApplication: Sendable {
  /// The one value.
  public static let shared = UIApplication()

  private init() {}

  /// Whether files of class ``ProtectionClass/complete`` can be used. False where nothing is mounted.
  public var isProtectedDataAvailable: Bool {
    guard let mount = FollowedMount().current else { return false }
    return ProtectedData.isAvailable(at: URL(fileURLWithPath: mount.mountPoint))
  }

  /// Posted when a lock was announced, on a thread of its own. The lock waits, for a bounded time, until all observers
  /// have returned.
  public static var protectedDataWillBecomeUnavailableNotification: Notification.Name {
    ProtectedDataNotifications.start()
    return ProtectedDataNotifications.willBecomeUnavailable
  }

  /// Posted when files of class ``ProtectionClass/complete`` can be used again, on a thread of its own: after an unlock, and
  /// after one that cancelled a lock.
  public static var protectedDataDidBecomeAvailableNotification: Notification.Name {
    ProtectedDataNotifications.start()
    return ProtectedDataNotifications.didBecomeAvailable
  }
}

/// Posts to the default notification center from the moment that somebody asks for a notification's name.
private enum ProtectedDataNotifications {
  static let willBecomeUnavailable = Notification.Name("UIApplicationProtectedDataWillBecomeUnavailable")
  static let didBecomeAvailable = Notification.Name("UIApplicationProtectedDataDidBecomeAvailable")

  private static let follower: MountFollower = {
    // What is known now is no change, and what comes after it is.
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
