import Foundation

/// UIKit's class from which the delegates of applications inherit, without any of its members: there is no user
/// interface. So `class AppDelegate: UIResponder, UIApplicationDelegate` compiles.
@MainActor open class UIResponder: NSObject {
  /// Makes a responder. An `override` of it is `required` here: ``UIApplicationDelegate/main()`` makes the delegate.
  public required override init() {}
}
