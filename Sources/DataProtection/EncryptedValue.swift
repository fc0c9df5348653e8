import Foundation

/// A value that a file can have in an encrypted field: the types of CloudKit's `encryptedValues` that a file can store.
///
/// Fields are stored as property lists, like Apple's own extended attributes, so that they keep their types and other
/// programs can read them. Other types conform by conversion to one of these.
public protocol EncryptedValue: Sendable {
  /// The value as a property list.
  var propertyList: Any { get }
  /// The value in a property list; `nil` if that has another type.
  init?(propertyList: Any)
}

extension String: EncryptedValue {
  /// The text itself.
  public var propertyList: Any { self }

  /// A text.
  public init?(propertyList: Any) {
    guard let value = propertyList as? String else { return nil }
    self = value
  }
}

extension Data: EncryptedValue {
  /// The data itself.
  public var propertyList: Any { self }

  /// Data.
  public init?(propertyList: Any) {
    guard let value = propertyList as? Data else { return nil }
    self = value
  }
}

extension Date: EncryptedValue {
  /// The date itself.
  public var propertyList: Any { self }

  /// A date.
  public init?(propertyList: Any) {
    guard let value = propertyList as? Date else { return nil }
    self = value
  }
}

extension Bool: EncryptedValue {
  /// The value itself.
  public var propertyList: Any { self }

  /// A Boolean, not a number.
  public init?(propertyList: Any) {
    guard type(of: propertyList) == Bool.self, let value = propertyList as? Bool else { return nil }
    self = value
  }
}

extension Int: EncryptedValue {
  /// The number itself.
  public var propertyList: Any { self }

  /// An integer, not another number.
  public init?(propertyList: Any) {
    guard let number = PropertyListNumber(propertyList), !number.isFloatingPoint else { return nil }
    self = number.value.intValue
  }
}

extension Double: EncryptedValue {
  /// The number itself.
  public var propertyList: Any { self }

  /// A number, integer or not.
  public init?(propertyList: Any) {
    guard let number = PropertyListNumber(propertyList) else { return nil }
    self = number.value.doubleValue
  }
}

extension Array: EncryptedValue where Element: EncryptedValue {
  /// An array of the elements' property lists.
  public var propertyList: Any { map(\.propertyList) }

  /// An array whose elements all have the type.
  public init?(propertyList: Any) {
    guard let list = propertyList as? [Any] else { return nil }
    self = []
    for item in list {
      guard let element = Element(propertyList: item) else { return nil }
      append(element)
    }
  }
}

/// A number in a property list, not a Boolean.
private struct PropertyListNumber {
  let value: NSNumber

  init?(_ propertyList: Any) {
    guard type(of: propertyList) != Bool.self, let number = propertyList as? NSNumber else { return nil }
    value = number
  }

  /// The type that it was stored with (`NSNumber.objCType`).
  var isFloatingPoint: Bool { unsafe ["d", "f"].contains(String(cString: value.objCType)) }
}
