import Cryptography
import StoreFormat

/// The key that opens a keybag by itself: 20 random bytes, shown once as 36 characters in groups of four.
///
/// The characters are Crockford's base 32, 32 for the key and 4 for a checksum of 20 bits, which is the start of
/// HKDF-SHA256 of the key. Lower case, `O` for `0`, `I` and `L` for `1`, blanks and dashes are understood.
package struct RecoveryKey: ~Copyable, Sendable {
  /// The length of the key, in bytes.
  package static let size = 20
  /// How many characters the text has, dashes aside.
  package static let characterCount = 36
  /// No text that is accepted is longer, in bytes.
  package static let longestText = 256

  private static let digits = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)

  let secret: SecretBytes

  /// A key for a new store.
  package init() throws(CryptographyError) {
    secret = try SecretBytes(randomCount: Self.size)
  }

  init(_ secret: consuming SecretBytes) {
    self.secret = secret
  }

  /// Reads what a person typed. Finds out typing errors by the checksum: of a million, about one is missed.
  package init(parsing text: borrowing SecretBytes) throws(KeyManagementError) {
    var values = SecretBytes(count: Self.characterCount)
    let isComplete = unsafe text.withBytes { text in
      unsafe values.withMutableBytes { unsafe Self.readDigits(of: text, into: $0) }
    }
    guard isComplete else { throw .recoveryKeyMistyped }
    var key = SecretBytes(count: Self.size)
    unsafe values.withBytes { values in
      unsafe key.withMutableBytes { unsafe Self.pack(values, into: $0) }
    }
    let typed = unsafe values.withBytes { unsafe Array($0[32...]) }
    let checksum = try KeyManagementError.wrapping { () throws(CryptographyError) in try Self.checksum(of: key) }
    guard typed == checksum else { throw .recoveryKeyMistyped }
    secret = key
  }

  /// The text to show, ASCII: nine groups of four characters with dashes between them.
  package func text() throws(CryptographyError) -> SecretBytes {
    let checksum = try Self.checksum(of: secret)
    var text = SecretBytes(count: Self.characterCount + 8)
    unsafe secret.withBytes { key in
      unsafe text.withMutableBytes { text in
        for index in 0..<Self.characterCount {
          let value = unsafe index < 32 ? Self.digit(index, of: key) : checksum[index - 32]
          if index > 0, index % 4 == 0 { unsafe text[index + index / 4 - 1] = UInt8(ascii: "-") }
          unsafe text[index + index / 4] = Self.digits[Int(value)]
        }
      }
    }
    return text
  }

  /// The key that wraps the keybag key and the volume's device key.
  func wrappingKey(of storeID: StoreID) throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.hkdf(ikm: secret, salt: storeID.bytes, info: "protectfs recovery key", count: 32)
  }

  /// Four digits of base 32.
  private static func checksum(of secret: borrowing SecretBytes) throws(CryptographyError) -> [UInt8] {
    let hash = try KeyDerivation.hkdf(ikm: secret, salt: [], info: "protectfs recovery key checksum", count: 3)
    return unsafe hash.withBytes { hash in (0..<4).map { unsafe digit($0, of: hash) } }
  }

  /// The 5 bits that digit number `index` stands for.
  private static func digit(_ index: Int, of bytes: UnsafeRawBufferPointer) -> UInt8 {
    let first = index * 5 / 8
    let next = unsafe first + 1 < bytes.count ? bytes[first + 1] : 0
    let pair = unsafe UInt16(bytes[first]) << 8 | UInt16(next)
    return UInt8(pair >> UInt16(11 - index * 5 % 8) & 31)
  }

  private static func pack(_ values: UnsafeRawBufferPointer, into key: UnsafeMutableRawBufferPointer) {
    for index in 0..<size {
      var bits: UInt64 = 0
      for digit in index / 5 * 8..<index / 5 * 8 + 8 { bits = unsafe bits << 5 | UInt64(values[digit]) }
      unsafe key[index] = UInt8(truncatingIfNeeded: bits >> UInt64(32 - index % 5 * 8))
    }
  }

  /// The values of the digits in a text. Returns whether there are as many as there must be, and nothing else.
  private static func readDigits(
    of text: UnsafeRawBufferPointer, into values: UnsafeMutableRawBufferPointer
  ) -> Bool {
    guard text.count <= longestText else { return false }
    var count = 0
    for index in text.indices {
      let character = unsafe text[index]
      if [UInt8(ascii: "-"), UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\n"), UInt8(ascii: "\r")]
        .contains(character)
      {
        continue
      }
      guard count < values.count, let value = value(of: character) else { return false }
      unsafe values[count] = value
      count += 1
    }
    return count == values.count
  }

  private static func value(of character: UInt8) -> UInt8? {
    let isLowercase = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(character)
    let upper = isLowercase ? character - 32 : character
    switch upper {
    case UInt8(ascii: "O"): return 0
    case UInt8(ascii: "I"), UInt8(ascii: "L"): return 1
    default: return digits.firstIndex(of: upper).map(UInt8.init)
    }
  }
}
