import Foundation

/// A value that a file can have in an encrypted field: the types of CloudKit's `encryptedValues` that a file can hold.
///
/// Fields are stored as property lists, as Apple's own extended attributes are, so that they keep their types and other
/// programs can read them.
public protocol EncryptedValue: Sendable {
  /// The value as property lists have it.
  var propertyList: Any { get }
  /// The value of a property list; `nil` for one of another type.
  init?(propertyList: Any)
}

extension EncryptedValue {
  /// The value itself: property lists have its type.
  public var propertyList: Any { self }

  /// A value of its own type.
  public init?(propertyList: Any) {
    guard let value = propertyList as? Self else { return nil }
    self = value
  }
}

extension String: EncryptedValue {}
extension Data: EncryptedValue {}
extension Date: EncryptedValue {}
extension Bool: EncryptedValue {}
extension Int: EncryptedValue {}
extension Double: EncryptedValue {}

extension Array: EncryptedValue where Element: EncryptedValue {
  /// An array of the elements' property lists.
  public var propertyList: Any { map(\.propertyList) }

  /// An array all of whose elements are of the type.
  public init?(propertyList: Any) {
    guard let list = propertyList as? [Any] else { return nil }
    self = []
    for item in list {
      guard let element = Element(propertyList: item) else { return nil }
      append(element)
    }
  }
}
