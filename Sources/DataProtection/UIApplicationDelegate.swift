/// The part of UIKit's protocol that concerns protected data; see ``UIApplication/delegate``.
@MainActor public protocol UIApplicationDelegate: AnyObject {
  /// A lock was announced. It waits, for a bounded time, until this returns.
  func applicationProtectedDataWillBecomeUnavailable(_ application: UIApplication)
  /// Files of class ``ProtectionClass/complete`` can be used again.
  func applicationProtectedDataDidBecomeAvailable(_ application: UIApplication)
}

// Both are optional in UIKit.
extension UIApplicationDelegate {
  /// Does nothing.
  public func applicationProtectedDataWillBecomeUnavailable(_ application: UIApplication) {}
  /// Does nothing.
  public func applicationProtectedDataDidBecomeAvailable(_ application: UIApplication) {}
}
