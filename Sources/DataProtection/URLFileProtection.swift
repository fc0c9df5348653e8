import Foundation
import ProtectfsPolicy

/// The class of a file as a URL resource value.
///
/// The raw values are those of Apple's `NSURLFileProtectionType`.
public struct URLFileProtection: RawRepresentable, Hashable, Sendable {
  /// One of Apple's constants.
  public let rawValue: String

  /// The value with a raw value.
  public init(rawValue: String) {
    self.rawValue = rawValue
  }

  /// ``ProtectionClass/complete``
  public static let complete = URLFileProtection(rawValue: "NSURLFileProtectionComplete")
  /// ``ProtectionClass/completeUnlessOpen``
  public static let completeUnlessOpen = URLFileProtection(rawValue: "NSURLFileProtectionCompleteUnlessOpen")
  /// ``ProtectionClass/completeUntilFirstUserAuthentication``
  public static let completeUntilFirstUserAuthentication = URLFileProtection(
    rawValue: "NSURLFileProtectionCompleteUntilFirstUserAuthentication")
  /// ``ProtectionClass/completeWhenUserInactive``
  public static let completeWhenUserInactive = URLFileProtection(
    rawValue: "NSURLFileProtectionCompleteWhenUserInactive")
  /// ``ProtectionClass/none``
  public static let none = URLFileProtection(rawValue: "NSURLFileProtectionNone")

  /// The value for a class.
  public init(_ protectionClass: ProtectionClass) {
    // The two sets of constants of Apple have different prefixes.
    self.init(rawValue: "NSURL" + protectionClass.foundationName.dropFirst("NS".count))
  }

  /// Foundation's constant for the same class.
  public var fileProtectionType: FileProtectionType {
    FileProtectionType(rawValue: "NS" + rawValue.dropFirst("NSURL".count))
  }
}

/// `NSURL` has the class as a string, which `as? URLFileProtection` takes as on Darwin.
extension URLFileProtection: _ObjectiveCBridgeable {
  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation, NoLeadingUnderscores
  public func _bridgeToObjectiveC() -> NSString { NSString(string: rawValue) }

  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation, NoLeadingUnderscores
  public static func _forceBridgeFromObjectiveC(_ source: NSString, result: inout URLFileProtection?) {
    result = _unconditionallyBridgeFromObjectiveC(source)
  }

  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation, NoLeadingUnderscores
  public static func _conditionallyBridgeFromObjectiveC(
    _ source: NSString, result: inout URLFileProtection?
  ) -> Bool {
    result = _unconditionallyBridgeFromObjectiveC(source)
    return true
  }

  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation, NoLeadingUnderscores
  public static func _unconditionallyBridgeFromObjectiveC(_ source: NSString?) -> URLFileProtection {
    URLFileProtection(rawValue: source.map { String._unconditionallyBridgeFromObjectiveC($0) } ?? "")
  }
}
