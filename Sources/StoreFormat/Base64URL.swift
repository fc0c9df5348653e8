/// Base 64 with the URL- and file-name-safe alphabet, without padding (RFC 4648, section 5).
///
/// Decoding is exact: each accepted string is the only one for its bytes.
package enum Base64URL {
  private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
  /// The value of each character, or 255.
  private static let values: [UInt8] = {
    var values = [UInt8](repeating: 255, count: 256)
    for (value, digit) in digits.enumerated() { values[Int(digit)] = UInt8(value) }
    return values
  }()

  /// The length of the text for `count` bytes.
  package static func encodedCount(_ count: Int) -> Int { (4 * count + 2) / 3 }

  /// The number of bytes that a text of `count` characters encodes; `nil` for a length that no text has.
  package static func decodedCount(_ count: Int) -> Int? { count % 4 == 1 ? nil : count / 4 * 3 + count % 4 * 3 / 4 }

  /// The text in ASCII.
  package static func encode(_ bytes: [UInt8]) -> [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity(encodedCount(bytes.count))
    var bits: UInt32 = 0
    var count: UInt32 = 0
    for byte in bytes {
      bits = bits << 8 | UInt32(byte)
      count += 8
      while count >= 6 {
        count -= 6
        text.append(digits[Int(bits >> count & 63)])
      }
    }
    if count > 0 { text.append(digits[Int(bits << (6 - count) & 63)]) }
    return text
  }

  /// The bytes, or `nil` for characters outside the alphabet, an impossible length, or bits left over that are not 0.
  package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
    text.withContiguousStorageIfAvailable { unsafe decode($0) } ?? decode(Array(text))
  }

  private static func decode(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
    guard let decodedCount = decodedCount(text.count) else { return nil }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(decodedCount)
    var bits: UInt32 = 0
    var count: UInt32 = 0
    for index in 0..<text.count {
      let value = unsafe values[Int(text[index])]
      guard value < 64 else { return nil }
      bits = bits << 6 | UInt32(value)
      count += 6
      if count >= 8 {
        count -= 8
        bytes.append(UInt8(truncatingIfNeeded: bits >> count))
      }
    }
    guard bits & (1 << count - 1) == 0 else { return nil }
    return bytes
  }
}
