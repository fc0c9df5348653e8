import Foundation

/// The part of UIKit's protocol that concerns protected data, and the beginning of the program; see
/// ``UIApplication/delegate`` and ``main()``.
@MainActor public protocol UIApplicationDelegate: AnyObject {
  /// The program has begun, by ``main()``.
  ///
  /// - Parameters:
  ///   - application: the only one.
  ///   - launchOptions: `nil`, since nothing but a command launches a program here.
  /// - Returns: what UIKit needs for URLs, of which there are none; it is ignored.
  func application(
    _ application: UIApplication, didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
  ) -> Bool
  /// A lock was announced. It waits, for a bounded time, until this returns.
  func applicationProtectedDataWillBecomeUnavailable(_ application: UIApplication)
  /// Files of class ``ProtectionClass/complete`` can be used again.
  func applicationProtectedDataDidBecomeAvailable(_ application: UIApplication)
}

// All are optional in UIKit.
extension UIApplicationDelegate {
  /// Does nothing, and returns `true`.
  public func application(
    _ application: UIApplication, didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
  ) -> Bool { true }
  /// Does nothing.
  public func applicationProtectedDataWillBecomeUnavailable(_ application: UIApplication) {}
  /// Does nothing.
  public func applicationProtectedDataDidBecomeAvailable(_ application: UIApplication) {}
}

extension UIApplicationDelegate where Self: UIResponder {
  /// What `@main` before the class runs: makes the delegate, sets it as that of ``UIApplication/shared``, tells it that
  /// the program has begun, and runs the main loop. Does not return.
  public static func main() {
    let (application, delegate) = (UIApplication.shared, Self())
    application.delegate = delegate
    _ = delegate.application(application, didFinishLaunchingWithOptions: nil)
    withExtendedLifetime(delegate) { while true { RunLoop.main.run() } }
  }
}

extension UIApplication {
  /// UIKit's keys of what a program was launched with. None is ever there.
  public struct LaunchOptionsKey: RawRepresentable, Hashable, Sendable {
    /// Its name.
    public let rawValue: String

    /// A key of a name.
    public init(rawValue: String) { self.rawValue = rawValue }
  }
}
