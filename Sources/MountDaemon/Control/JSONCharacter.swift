import ProtectfsIO

/// The characters of JSON text (RFC 8259).
enum JSONCharacter {
  /// Whether the byte may stand between tokens.
  static func isBlank(_ byte: UInt8) -> Bool {
    byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
  }

  /// Whether the byte may be part of a number, `true`, `false` or `null`.
  static func isOfWord(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "E"),
      UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."):
      true
    default: false
    }
  }

  /// Reads what follows a backslash, and moves `position` past it.
  ///
  /// - Throws: `malformed` for an unknown escape and for half of a surrogate pair.
  static func readEscape(
    from bytes: UnsafeRawBufferPointer, at position: inout Int
  ) throws(MessageError) -> Unicode.Scalar {
    guard position < bytes.count else { throw .malformed }
    let byte = unsafe bytes[position]
    position += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{C}"
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "u"): break
    default: throw .malformed
    }
    let unit = try unsafe readUnit(from: bytes, at: &position)
    if let scalar = Unicode.Scalar(unit) { return scalar }
    guard unit < 0xDC00, position + 1 < bytes.count, unsafe bytes[position] == UInt8(ascii: "\\"),
      unsafe bytes[position + 1] == UInt8(ascii: "u")
    else { throw .malformed }
    position += 2
    let second = try unsafe readUnit(from: bytes, at: &position)
    guard (0xDC00..<0xE000).contains(second),
      let scalar = Unicode.Scalar(0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00))
    else { throw .malformed }
    return scalar
  }

  /// Reads four hexadecimal digits.
  private static func readUnit(
    from bytes: UnsafeRawBufferPointer, at position: inout Int
  ) throws(MessageError) -> UInt32 {
    guard position + 4 <= bytes.count else { throw .malformed }
    var unit: UInt32 = 0
    for _ in 0..<4 {
      guard let digit = unsafe hexadecimalValue(of: bytes[position]) else { throw .malformed }
      unit = unit << 4 | UInt32(digit)
      position += 1
    }
    return unit
  }
}
