import Foundation

/// The value of an encrypted field, as it is stored.
///
/// Fields are binary property lists, like Apple's own extended attributes, so that they keep their types and other
/// programs can read them. A value that another program has set is text if it is UTF-8, otherwise data.
struct EncryptedValue: Hashable, Sendable {
  /// The bytes of the extended attribute.
  let bytes: [UInt8]

  init(bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// Encodes a value of Swift or of Foundation's classes: an `Encodable` one, or a property list.
  ///
  /// A `URL` is stored as its text, and a `UUID` too.
  /// - Throws: `EncodingError.invalidValue` for any other value.
  init(_ value: Any) throws {
    let list: Any
    switch value {
    case let url as URL: list = url.absoluteString
    case let value as any Encodable: list = try Self.propertyList(encoding: value)
    default: list = try Self.storable(value)
    }
    guard PropertyListSerialization.propertyList(list, isValidFor: .binary) else {
      throw EncodingError.invalidValue(
        value, .init(codingPath: [], debugDescription: "a \(type(of: value)) is neither Encodable nor a property list"))
    }
    bytes = Array(try PropertyListSerialization.data(fromPropertyList: list, format: .binary, options: 0))
  }

  /// Encodes a value that ``propertyList`` can be cast to again.
  ///
  /// - Throws: `EncodingError.invalidValue` for one of another type, and as ``init(_:)``.
  init(castable value: Any) throws {
    try self.init(value)
    guard let value = value as? any Encodable, !isCastable(toTypeOf: value) else { return }
    throw EncodingError.invalidValue(
      value,
      .init(
        codingPath: [],
        debugDescription: """
          it would not come back from the subscript as a \(type(of: value)): set it with set(_:forKey:), and read it with \
          value(forKey:as:)
          """))
  }

  private func isCastable<Value: Encodable>(toTypeOf value: Value) -> Bool { propertyList is Value }

  /// A value without the optionals around it. The encoder would store a nested `nil` as text.
  static func unwrapped(_ value: Any?) -> Any? {
    guard let value else { return nil }
    let mirror = Mirror(reflecting: value)
    return mirror.displayStyle == .optional ? unwrapped(mirror.children.first?.value) : value
  }

  /// The encoder takes collections only, so the value is in an array meanwhile.
  private static func propertyList(encoding value: some Encodable) throws -> Any {
    let encoder = PropertyListEncoder()
    encoder.outputFormat = .binary
    let list = try unsafe PropertyListSerialization.propertyList(from: encoder.encode([value]), format: nil)
    guard let element = (list as? [Any])?.first else {
      throw EncodingError.invalidValue(value, .init(codingPath: [], debugDescription: "\(value) was not encoded"))
    }
    if !isPlainText(type(of: value)) { try requireNoNull(in: element, of: value) }
    return element
  }

  /// The value as a property list: `String`, `Data`, `Date`, `NSNumber`, or an array or dictionary of these.
  /// Each can be cast (`as?`) to the types that Foundation bridges it to: a number, and what was a Boolean, to `Bool`,
  /// `Int`, `Int64`, `Double`.
  var propertyList: Any { Self.castable(list) }

  private var list: Any {
    if bytes.starts(with: "bplist00".utf8),
      let list = try? unsafe PropertyListSerialization.propertyList(from: Data(bytes), format: nil)
    {
      return list
    }
    return String(validating: bytes, as: UTF8.self) ?? Data(bytes)
  }

  /// The value as one of a type.
  ///
  /// - Throws: `DecodingError` if it has another type. A number is not a Boolean, and one with a fraction is not an
  ///   integer, even if the fraction is zero; in a collection the decoder takes it for one then.
  func decoded<Value: Decodable>(as type: Value.Type) throws -> Value {
    let list = list
    if type == URL.self, let url = (list as? String).flatMap(URL.init(string:)) as? Value { return url }
    // The decoder takes a certain text for nil.
    if Self.isPlainText(type), let value = list as? Value { return value }
    if type is any BinaryInteger.Type, Self.isFloatingPoint(list) {
      throw DecodingError.typeMismatch(type, .init(codingPath: [], debugDescription: "it has a fraction"))
    }
    let wrapped = try PropertyListSerialization.data(fromPropertyList: [list], format: .binary, options: 0)
    return try PropertyListDecoder().decode(Element<Value>.self, from: wrapped).value
  }

  /// The only element of an array. An array of `Value` would take an array's bytes for its own.
  private struct Element<Value: Decodable>: Decodable {
    let value: Value

    init(from decoder: any Decoder) throws {
      var container = try decoder.unkeyedContainer()
      value = try container.decode(Value.self)
    }
  }

  private static func isFloatingPoint(_ list: Any) -> Bool {
    guard type(of: list) != Bool.self, let number = list as? NSNumber else { return false }
    return unsafe ["d", "f"].contains(String(cString: number.objCType))
  }
}
