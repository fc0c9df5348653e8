import CLibcrypto

/// AES-256 key wrap (RFC 3394; NIST SP 800-38F, KW): encrypts a key under a key and adds 8 bytes.
package enum KeyWrap {
  /// By how many bytes a wrapped key is longer than the key.
  package static let overhead = 8

  /// Wraps a secret of at least 16 bytes, a multiple of 8, under a key of 32 bytes.
  package static func wrap(
    _ secret: borrowing SecretBytes, under key: borrowing SecretBytes
  ) throws(CryptographyError) -> [UInt8] {
    guard secret.count >= 16, secret.count % 8 == 0 else { throw .invalidLength("a key to be wrapped") }
    let context = try context(under: key, encrypts: true)
    var wrapped = [UInt8](repeating: 0, count: secret.count + overhead)
    var produced: CInt = 0
    let status = unsafe secret.withBytes { secret in
      unsafe wrapped.withMutableBytes { wrapped in
        unsafe EVP_CipherUpdate(
          context.pointer, wrapped.baseAddress?.assumingMemoryBound(to: UInt8.self), &produced,
          secret.baseAddress?.assumingMemoryBound(to: UInt8.self), CInt(secret.count))
      }
    }
    try check(status, "wrap a key")
    guard Int(produced) == wrapped.count else { throw .invalidLength("a wrapped key") }
    return wrapped
  }

  /// Unwraps a key that ``wrap(_:under:)`` wrapped; throws ``CryptographyError/wrongKey`` for another key or altered
  /// bytes.
  package static func unwrap(
    _ wrapped: [UInt8], under key: borrowing SecretBytes
  ) throws(CryptographyError) -> SecretBytes {
    guard wrapped.count >= 24, wrapped.count % 8 == 0 else { throw .invalidLength("a wrapped key") }
    let context = try context(under: key, encrypts: false)
    // libcrypto may write as many bytes as the input has.
    var buffer = SecretBytes(count: wrapped.count)
    var produced: CInt = 0
    let status = unsafe wrapped.withBytes { wrapped in
      unsafe buffer.withMutableBytes { buffer in
        unsafe EVP_CipherUpdate(
          context.pointer, buffer.baseAddress?.assumingMemoryBound(to: UInt8.self), &produced,
          wrapped.baseAddress?.assumingMemoryBound(to: UInt8.self), CInt(wrapped.count))
      }
    }
    guard status == 1, Int(produced) == wrapped.count - overhead else {
      ERR_clear_error()
      throw .wrongKey
    }
    return buffer.prefix(wrapped.count - overhead)
  }

  private static func context(
    under key: borrowing SecretBytes, encrypts: Bool
  ) throws(CryptographyError) -> CipherContext {
    guard key.count == 32 else { throw .invalidLength("a key that wraps") }
    return try unsafe key.withBytes { (key) throws(CryptographyError) in
      try unsafe CipherContext(.aes256Wrap, key: key, encrypts: encrypts)
    }
  }
}
