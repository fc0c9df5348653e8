import CLibcrypto

/// AES-SIV (RFC 5297): the same text under the same key and associated data always gives the same bytes, which are
/// authentic. Used for names, which must be found again, and for symbolic links and extended attributes.
///
/// Encrypted text is 16 bytes longer than the text: it consists of the synthetic initialisation vector, then the
/// ciphertext. Calls may come from any thread, and allocate only their result.
package final class NameCipher: @unchecked Sendable {
  /// The key length of AES. The format uses AES-256; the published vectors of RFC 5297 use AES-128.
  package enum Strength: Sendable {
    case aes128
    case aes256

    /// The length of the whole key in bytes: one half for S2V, one for CTR.
    package var keySize: Int {
      switch self {
      case .aes128: 32
      case .aes256: 64
      }
    }
  }

  /// By how many bytes encrypted text is longer than the text.
  package static let overhead = 16

  private let key: SecretBytes
  private let strength: Strength
  private let pool = ContextPool<SyntheticVectorContext>()

  /// A cipher with a key of ``Strength/keySize`` bytes.
  package init(key: consuming SecretBytes, strength: Strength = .aes256) throws(CryptographyError) {
    guard key.count == strength.keySize else { throw .invalidLength("a SIV key") }
    self.key = key
    self.strength = strength
  }

  /// Encrypts and authenticates a text. Empty associated data differs from `nil`.
  package func encrypt(
    _ text: UnsafeRawBufferPointer, associatedData: [UInt8]?
  ) throws(CryptographyError) -> [UInt8] {
    var encrypted = [UInt8](repeating: 0, count: text.count + Self.overhead)
    try unsafe encrypted.withMutableBytes { (encrypted) throws(CryptographyError) in
      try withContext { (context) throws(CryptographyError) in
        let vector = try unsafe context.syntheticVector(of: text, associatedData: associatedData)
        unsafe encrypted.storeBytes(of: vector.bigEndian, as: UInt128.self)
        try unsafe context.applyKeyStream(
          vector, to: text, into: UnsafeMutableRawBufferPointer(rebasing: encrypted[Self.overhead...]))
      }
    }
    return encrypted
  }

  /// Encrypts a text in an array.
  package func encrypt(_ text: [UInt8], associatedData: [UInt8]?) throws(CryptographyError) -> [UInt8] {
    try unsafe text.withBytes { (text) throws(CryptographyError) in
      try unsafe encrypt(text, associatedData: associatedData)
    }
  }

  /// Decrypts a text; throws ``CryptographyError/notAuthentic`` if it was not encrypted under this key with this
  /// associated data.
  package func decrypt(
    _ encrypted: UnsafeRawBufferPointer, associatedData: [UInt8]?
  ) throws(CryptographyError) -> [UInt8] {
    guard encrypted.count >= Self.overhead else { throw .notAuthentic }
    var text = [UInt8](repeating: 0, count: encrypted.count - Self.overhead)
    let isAuthentic = try unsafe text.withMutableBytes { (text) throws(CryptographyError) in
      try withContext { (context) throws(CryptographyError) in
        let given = unsafe UInt128(bigEndian: encrypted.loadUnaligned(as: UInt128.self))
        try unsafe context.applyKeyStream(
          given, to: UnsafeRawBufferPointer(rebasing: encrypted[Self.overhead...]), into: text)
        let computed = try unsafe context.syntheticVector(
          of: UnsafeRawBufferPointer(text), associatedData: associatedData)
        return isEqualInConstantTime(given, computed)
      }
    }
    guard isAuthentic else { throw .notAuthentic }
    return text
  }

  /// Decrypts a text in an array.
  package func decrypt(_ encrypted: [UInt8], associatedData: [UInt8]?) throws(CryptographyError) -> [UInt8] {
    try unsafe encrypted.withBytes { (encrypted) throws(CryptographyError) in
      try unsafe decrypt(encrypted, associatedData: associatedData)
    }
  }

  private func withContext<Result>(
    _ body: (SyntheticVectorContext) throws(CryptographyError) -> Result
  ) throws(CryptographyError) -> Result {
    try pool.withContext(
      make: { () throws(CryptographyError) in
        try unsafe key.withBytes { (key) throws(CryptographyError) in
          try unsafe SyntheticVectorContext(key: key, strength: strength)
        }
      }, body)
  }

  private func isEqualInConstantTime(_ first: UInt128, _ second: UInt128) -> Bool {
    unsafe withUnsafeBytes(of: first) { first in
      unsafe withUnsafeBytes(of: second) { second in
        unsafe CRYPTO_memcmp(first.baseAddress, second.baseAddress, 16) == 0
      }
    }
  }
}
