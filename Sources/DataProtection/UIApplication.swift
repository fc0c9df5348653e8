import DataProtectionEssentials
import Foundation
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The part of UIKit's class that concerns protected data, for code written for it.
///
/// It represents the mount of the app's files, which ``protectedDataURL`` names. If none is named, it represents all
/// mounts of this user's: protected data is available if that of each of them is. Programs with files on
/// several mounts use ``ProtectedData``.
///
/// Notifications are posted, and the ``delegate`` is called, on the main queue, as UIKit does. They begin when the
/// first observer is added with `addObserver(forName:object:queue:using:)` in a file whose target imports this module,
/// or when a delegate is set; a call through a protocol, in a module without the import, or as the only expression of a
/// closure in an async function, does not begin them, and needs ``startNotifications()``. Reading the names of the
/// notifications, or ``isProtectedDataAvailable``, starts nothing.
///
/// A lock waits, for a bounded time, until the delegate and all observers have returned. It does not wait for a main
/// queue that has not run for two seconds, which is so in programs that call neither `RunLoop.main.run()` nor
/// `dispatchMain()` and have no asynchronous `main`. What was not posted then is posted when the queue runs.
public final class UIApplication: Sendable {
  /// The only instance.
  public static let shared = UIApplication()

  /// Posted when a lock was announced, with ``shared`` as its object. The lock waits for the observers.
  public static let protectedDataWillBecomeUnavailableNotification =
    Notification.Name("UIApplicationProtectedDataWillBecomeUnavailable")

  /// Posted when files of class ``ProtectionClass/complete`` can be used again, with ``shared`` as its object: after an
  /// unlock, and after an unlock that cancelled a lock.
  public static let protectedDataDidBecomeAvailableNotification =
    Notification.Name("UIApplicationProtectedDataDidBecomeAvailable")

  /// Whose methods are called before the notifications are posted. It is not retained.
  @MainActor public weak var delegate: (any UIApplicationDelegate)? {
    didSet { if delegate != nil { startNotifications() } }
  }

  private let url: RankedMutex<URL?>
  private let notifications = ApplicationNotifications()

  private init() {
    let path = ProcessInfo.processInfo.environment["PROTECTFS_MOUNT_POINT"]
    url = RankedMutex(.application, path.map { URL(filePath: $0, directoryHint: .inferFromPath) })
  }

  /// A path on the mount of the app's files; `nil` for all mounts. At first, the one that the environment variable
  /// `PROTECTFS_MOUNT_POINT` names.
  ///
  /// Nothing need be mounted there yet. Set it before the first observer is added: what changes by setting it is not
  /// posted.
  public var protectedDataURL: URL? {
    get { url.withLock { $0 } }
    set {
      url.withLock { $0 = newValue }
      notifications.restart()
    }
  }

  /// Whether files of class ``ProtectionClass/complete`` can be used. `false` if nothing is mounted, or a daemon was
  /// stopped, or publishes no state and does not answer in two seconds.
  public var isProtectedDataAvailable: Bool {
    let mounts = followedMount.current(in: MountedFileSystem.all())
    return !mounts.isEmpty && LockState.all(of: mounts, satisfy: ProtectionClass.complete.canBeOpened)
  }

  /// Begins to post notifications, for observers that this module does not see being added.
  public func startNotifications() {
    notifications.start()
  }

  var followedMount: FollowedMount {
    protectedDataURL.map { FollowedMount(path: $0.path(percentEncoded: false)) } ?? .all
  }
}
