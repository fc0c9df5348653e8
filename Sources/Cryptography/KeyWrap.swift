import CLibcrypto

/// AES-256 key wrap (RFC 3394; NIST SP 800-38F, KW): encrypts a key under a key and adds 8 bytes.
///
/// libcrypto has it, but in 3.0 computes it without the processor's instructions for AES. It is composed of AES here. A
/// test shows that libcrypto's produces the same bytes.
package enum KeyWrap {
  /// By how many bytes a wrapped key is longer than the key.
  package static let overhead = 8

  /// The default initial value (RFC 3394, section 2.2.3.1), by which a wrapped key is recognised.
  private static let initialValue: UInt64 = 0xA6A6_A6A6_A6A6_A6A6

  /// The length of an AES block, in bytes. RFC 3394's registers are kept as a block `A ‖ R[i]`, and then all of `R`.
  private static let blockSize = 16

  /// Wraps a secret of at least 16 bytes, a multiple of 8, under a key of 32 bytes.
  package static func wrap(
    _ secret: borrowing SecretBytes, under key: borrowing SecretBytes
  ) throws(CryptographyError) -> [UInt8] {
    guard secret.count >= 16, secret.count % 8 == 0 else { throw .invalidLength("a key to be wrapped") }
    let context = try context(under: key, encrypts: true)
    var registers = SecretBytes(count: blockSize + secret.count)
    return try unsafe registers.withMutableBytes { (bytes) throws(CryptographyError) in
      unsafe secret.withBytes { unsafe bytes[blockSize...].copyBytes(from: $0) }
      let words = unsafe bytes.bindMemory(to: UInt64.self)
      let count = secret.count / 8
      unsafe words[0] = initialValue
      for step in 1...6 * count {
        let register = 2 + (step - 1) % count
        unsafe words[1] = words[register]
        try unsafe transform(words, with: context)
        unsafe words[0] ^= UInt64(step).bigEndian
        unsafe words[register] = words[1]
      }
      unsafe words[1] = words[0]
      return unsafe Array(UnsafeRawBufferPointer(rebasing: bytes[8...]))
    }
  }

  /// Unwraps a key that ``wrap(_:under:)`` wrapped; throws ``CryptographyError/wrongKey`` for another key or altered
  /// bytes.
  package static func unwrap(
    _ wrapped: [UInt8], under key: borrowing SecretBytes
  ) throws(CryptographyError) -> SecretBytes {
    guard wrapped.count >= 24, wrapped.count % 8 == 0 else { throw .invalidLength("a wrapped key") }
    let context = try context(under: key, encrypts: false)
    var registers = SecretBytes(count: 8 + wrapped.count)
    return try unsafe registers.withMutableBytes { (bytes) throws(CryptographyError) in
      unsafe bytes[8...].copyBytes(from: wrapped)
      let words = unsafe bytes.bindMemory(to: UInt64.self)
      let count = wrapped.count / 8 - 1
      unsafe words[0] = words[1]
      for step in (1...6 * count).reversed() {
        let register = 2 + (step - 1) % count
        unsafe words[0] ^= UInt64(step).bigEndian
        unsafe words[1] = words[register]
        try unsafe transform(words, with: context)
        unsafe words[register] = words[1]
      }
      let isIntact = unsafe withUnsafeBytes(of: initialValue) {
        unsafe CRYPTO_memcmp($0.baseAddress, words.baseAddress, $0.count) == 0
      }
      guard isIntact else { throw .wrongKey }
      return unsafe SecretBytes(copying: UnsafeRawBufferPointer(rebasing: bytes[blockSize...]))
    }
  }

  /// Encrypts or decrypts the block that words start with.
  @inline(__always)
  private static func transform(
    _ words: UnsafeMutableBufferPointer<UInt64>, with context: CipherContext
  ) throws(CryptographyError) {
    let block = unsafe UnsafeMutableRawPointer(words.baseAddress!).assumingMemoryBound(to: UInt8.self)
    var produced: CInt = 0
    try check(unsafe EVP_CipherUpdate(context.pointer, block, &produced, block, CInt(blockSize)), "wrap a key")
  }

  private static func context(
    under key: borrowing SecretBytes, encrypts: Bool
  ) throws(CryptographyError) -> CipherContext {
    guard key.count == 32 else { throw .invalidLength("a key that wraps") }
    let context = try unsafe key.withBytes { (key) throws(CryptographyError) in
      try unsafe CipherContext(.aes256ECB, key: key, encrypts: encrypts)
    }
    // With padding, decryption would keep its last block back.
    try check(unsafe EVP_CIPHER_CTX_set_padding(context.pointer, 0), "set a padding")
    return context
  }
}
