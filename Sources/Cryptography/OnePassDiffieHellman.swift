import CLibcrypto

/// The wrapping of class B (Apple Platform Security, "Protected Unless Open"): anyone who has the class's public key
/// can wrap a file's key; only the private key unwraps it.
///
/// One-pass Diffie-Hellman (NIST SP 800-56A, C(1e, 1s)) on X25519 (RFC 7748): `KEK = SHA-256(00000001 ‖ Z ‖ ephemeral
/// public key ‖ class public key)`, `wrapped = ephemeral public key (32) ‖ key wrap under KEK (40)`.
package enum OnePassDiffieHellman {
  /// The length of a private and of a public key, in bytes.
  package static let keySize = 32
  /// The length of a wrapped file key, in bytes.
  package static let wrappedSize = 72

  /// A new key pair.
  package struct KeyPair: ~Copyable, Sendable {
    package let privateKey: SecretBytes
    package let publicKey: [UInt8]

    /// Generates a pair. Any 32 bytes are a private key (RFC 7748, section 5).
    package init() throws(CryptographyError) {
      try self.init(privateKey: SecretBytes(randomCount: keySize))
    }

    init(privateKey: consuming SecretBytes) throws(CryptographyError) {
      publicKey = try OnePassDiffieHellman.publicKey(of: privateKey)
      self.privateKey = privateKey
    }
  }

  /// The public key that belongs to a private key.
  package static func publicKey(of privateKey: borrowing SecretBytes) throws(CryptographyError) -> [UInt8] {
    let key = try Key(privateKey: privateKey)
    var bytes = [UInt8](repeating: 0, count: keySize)
    var length = keySize
    let status = unsafe bytes.withUnsafeMutableBufferPointer {
      unsafe EVP_PKEY_get_raw_public_key(key.pointer, $0.baseAddress, &length)
    }
    try check(status, "compute a public key")
    return bytes
  }

  /// Wraps a file's key for the holder of a class's private key, with an ephemeral key pair generated for this key
  /// alone.
  package static func wrap(
    _ fileKey: borrowing SecretBytes, for classPublicKey: [UInt8]
  ) throws(CryptographyError) -> [UInt8] {
    try wrap(fileKey, for: classPublicKey, ephemeral: KeyPair())
  }

  /// Wraps with a given ephemeral key pair, for test vectors.
  static func wrap(
    _ fileKey: borrowing SecretBytes, for classPublicKey: [UInt8], ephemeral: borrowing KeyPair
  ) throws(CryptographyError) -> [UInt8] {
    let wrappingKey = try wrappingKey(
      sharedSecret(ephemeral.privateKey, classPublicKey), ephemeral.publicKey, classPublicKey)
    return ephemeral.publicKey + (try KeyWrap.wrap(fileKey, under: wrappingKey))
  }

  /// Unwraps a file's key; throws ``CryptographyError/wrongKey`` for another key or altered bytes.
  package static func unwrap(
    _ wrapped: [UInt8], privateKey: borrowing SecretBytes, publicKey: [UInt8]
  ) throws(CryptographyError) -> SecretBytes {
    guard wrapped.count == wrappedSize else { throw .invalidLength("a wrapped key of class B") }
    let ephemeral = Array(wrapped[..<keySize])
    let wrappingKey = try wrappingKey(sharedSecret(privateKey, ephemeral), ephemeral, publicKey)
    return try KeyWrap.unwrap(Array(wrapped[keySize...]), under: wrappingKey)
  }

  /// X25519 of a private and a public key. Refuses public keys that give zero (RFC 7748, section 6.1).
  package static func sharedSecret(
    _ privateKey: borrowing SecretBytes, _ publicKey: [UInt8]
  ) throws(CryptographyError) -> SecretBytes {
    let own = try Key(privateKey: privateKey)
    let peer = try Key(publicKey: publicKey)
    let context = try unsafe check(
      EVP_PKEY_CTX_new_from_pkey(nil, own.pointer, nil), "make a key agreement")
    defer { unsafe EVP_PKEY_CTX_free(context) }
    try check(unsafe EVP_PKEY_derive_init(context), "start a key agreement")
    try check(unsafe EVP_PKEY_derive_set_peer(context, peer.pointer), "take a public key")
    var secret = SecretBytes(count: keySize)
    var length = keySize
    let status = unsafe secret.withMutableBytes {
      unsafe EVP_PKEY_derive(context, $0.baseAddress?.assumingMemoryBound(to: UInt8.self), &length)
    }
    guard status == 1, length == keySize, !(secret == SecretBytes(count: keySize)) else {
      ERR_clear_error()
      throw .invalidPublicKey
    }
    return secret
  }

  private static func wrappingKey(
    _ secret: borrowing SecretBytes, _ ephemeral: [UInt8], _ classPublicKey: [UInt8]
  ) throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.concatenation(secret: secret, info: ephemeral + classPublicKey, count: 32)
  }

  /// A key of libcrypto, freed and wiped with this value.
  @safe private struct Key: ~Copyable {
    let pointer: OpaquePointer

    init(privateKey: borrowing SecretBytes) throws(CryptographyError) {
      guard privateKey.count == keySize else { throw .invalidLength("an X25519 private key") }
      let key = unsafe privateKey.withBytes {
        unsafe EVP_PKEY_new_raw_private_key_ex(
          nil, "X25519", nil, $0.baseAddress?.assumingMemoryBound(to: UInt8.self), $0.count)
      }
      unsafe pointer = try check(key, "take an X25519 private key")
    }

    init(publicKey: [UInt8]) throws(CryptographyError) {
      guard publicKey.count == keySize else { throw .invalidLength("an X25519 public key") }
      let key = unsafe publicKey.withUnsafeBufferPointer {
        unsafe EVP_PKEY_new_raw_public_key_ex(nil, "X25519", nil, $0.baseAddress, $0.count)
      }
      unsafe pointer = try check(key, "take an X25519 public key")
    }

    deinit {
      unsafe EVP_PKEY_free(pointer)
    }
  }
}
