import Foundation

// FileManager+Attributes.swift explains why this is a property.
extension NotificationCenter {
  /// `addObserver(forName:object:queue:using:)`, which also begins the notifications of ``UIApplication``.
  public var addObserver: ObserverAddition { ObserverAddition(center: self) }
}

/// The call `addObserver(forName:object:queue:using:)`.
public struct ObserverAddition {
  fileprivate let center: NotificationCenter

  /// Where a notification of ours has the hold on the lock.
  static let holdKey = "DataProtectionLockHold"

  private static let names = [
    UIApplication.protectedDataWillBecomeUnavailableNotification,
    UIApplication.protectedDataDidBecomeAvailableNotification,
  ]

  /// Adds an observer, as Foundation does. An observer of ``UIApplication``'s notifications, or of all notifications,
  /// in the default center begins these.
  ///
  /// If an observer of these has a queue of its own, the main queue does not wait for that queue, but the lock does.
  @preconcurrency
  public func callAsFunction(
    forName name: NSNotification.Name?, object: Any?, queue: OperationQueue?,
    using block: @escaping @Sendable (Notification) -> Void
  ) -> any NSObjectProtocol {
    typealias Foundation = (
      NSNotification.Name?, Any?, OperationQueue?, @escaping @Sendable (Notification) -> Void
    ) -> any NSObjectProtocol
    let foundation: Foundation = center.addObserver(forName:object:queue:using:)
    guard center === NotificationCenter.default else { return foundation(name, object, queue, block) }
    let observer: any NSObjectProtocol
    if let name, Self.names.contains(name), let queue, queue !== OperationQueue.main {
      observer = foundation(name, object, nil) { notification in Self.add(notification, to: queue, block) }
    } else {
      observer = foundation(name, object, queue, block)
    }
    if name.map(Self.names.contains) ?? true { UIApplication.shared.startNotifications() }
    return observer
  }

  /// Calls an observer on its queue, without waiting for it.
  private static func add(
    _ notification: Notification, to queue: OperationQueue, _ block: @escaping @Sendable (Notification) -> Void
  ) {
    let hold = (notification.userInfo?[holdKey] as? LockHold)?.another()
    nonisolated(unsafe) let notification = notification
    queue.addOperation {
      block(unsafe notification)
      hold?.release()
    }
  }
}
