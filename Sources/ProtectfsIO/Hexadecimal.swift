// Bytes as text of two digits each, as identities travel in calls and name files.

/// What a digit stands for.
package func hexadecimalValue(of digit: UInt8) -> UInt8? {
  switch digit {
  case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
  case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
  case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
  default: nil
  }
}

extension [UInt8] {
  /// The bytes that a text stands for; `nil` unless it has an even number of digits and nothing else.
  package init?(hexadecimal text: String) {
    let digits = text.utf8.map(hexadecimalValue)
    guard digits.count % 2 == 0, !digits.contains(nil) else { return nil }
    self = stride(from: 0, to: digits.count, by: 2).map { digits[$0]! << 4 | digits[$0 + 1]! }
  }

  /// The text for the bytes.
  package var hexadecimal: String {
    let digits = Array<Character>("0123456789abcdef")
    return String(flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
  }
}
