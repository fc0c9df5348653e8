import Foundation

// Where Foundation's property lists would change a value without a word.
extension EncryptedValue {
  /// A property list with `NSNumber` in the place of `Bool`, which cannot be cast to other numbers.
  static func castable(_ list: Any) -> Any {
    switch list {
    case let value as Bool where type(of: list) == Bool.self: NSNumber(value: value)
    case let values as [Any]: values.map(castable)
    case let values as [String: Any]: values.mapValues(castable)
    default: list
    }
  }

  /// A property list of Foundation's classes without decimal numbers, which would be stored as a `Double`.
  ///
  /// - Throws: `EncodingError.invalidValue` for a decimal number that has more digits than that.
  static func storable(_ list: Any) throws -> Any {
    switch list {
    case let number as NSDecimalNumber where type(of: list) is NSDecimalNumber.Type: try storable(number)
    case let values as [Any]: try values.map(storable)
    case let values as [String: Any]: try values.mapValues(storable)
    default: list
    }
  }

  private static func storable(_ number: NSDecimalNumber) throws -> NSNumber {
    let decimal = number.decimalValue
    if let integer = Int64("\(decimal)") { return NSNumber(value: integer) }
    // By its text: doubleValue is not the nearest one.
    guard let double = Double("\(decimal)"), Decimal(string: "\(double)") == decimal else {
      throw EncodingError.invalidValue(
        number, .init(codingPath: [], debugDescription: "it has more digits than a Double: store it as a Decimal"))
    }
    return NSNumber(value: double)
  }

  // MARK: The text by which the encoder stands for nil

  private static let null = "$null"

  /// Whether values of a type are texts alone, which are not read by the decoder.
  static func isPlainText(_ type: Any.Type) -> Bool {
    type == String.self || type == [String].self || type == [String: String].self
  }

  /// - Parameter list: what the encoder has made of a value.
  /// - Throws: `EncodingError.invalidValue` if the value has the text, which the decoder would take for `nil`.
  static func requireNoNull(in list: Any, of value: some Encodable) throws {
    guard contains(list, null) else { return }
    // It may stand for nil. JSON has another word for that.
    let encoder = JSONEncoder()
    encoder.nonConformingFloatEncodingStrategy = .convertToString(
      positiveInfinity: "inf", negativeInfinity: "-inf", nan: "nan")
    if contains(try JSONSerialization.jsonObject(with: encoder.encode([value])), null) {
      throw EncodingError.invalidValue(
        value, .init(codingPath: [], debugDescription: "the text \(null) would be read as nil"))
    }
  }

  private static func contains(_ list: Any, _ text: String) -> Bool {
    switch list {
    case let values as [Any]: values.contains { contains($0, text) }
    case let values as [String: Any]: values.values.contains { contains($0, text) }
    default: list as? String == text
    }
  }
}
