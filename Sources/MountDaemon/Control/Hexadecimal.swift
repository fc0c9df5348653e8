import Cryptography

// Bytes as text of two digits each, as identities and key files travel in calls.

/// What a digit stands for.
func hexadecimalValue(of digit: UInt8) -> UInt8? {
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

extension SecretBytes {
  /// The bytes that a text stands for, without a copy elsewhere.
  init?(hexadecimal text: borrowing SecretBytes) {
    var bytes = SecretBytes(count: text.count / 2)
    let isValid = unsafe text.withBytes { text in
      unsafe bytes.withMutableBytes { bytes in
        guard text.count % 2 == 0 else { return false }
        for index in bytes.indices {
          guard let high = unsafe hexadecimalValue(of: text[2 * index]),
            let low = unsafe hexadecimalValue(of: text[2 * index + 1])
          else { return false }
          unsafe bytes[index] = high << 4 | low
        }
        return true
      }
    }
    guard isValid else { return nil }
    self = bytes
  }
}
