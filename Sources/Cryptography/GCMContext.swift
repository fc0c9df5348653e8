import CLibcrypto

/// AES-256-GCM with a nonce of 12 bytes and a tag of 16 (NIST SP 800-38D), message by message. One thread at a time may
/// use it.
final class GCMContext: @unchecked Sendable {
  static let (nonceSize, tagSize) = (12, 16)
  /// GCM encrypts and decrypts with the same key schedule.
  private let context: CipherContext

  /// A context with a key of 32 bytes.
  init(key: borrowing SecretBytes) throws(CryptographyError) {
    guard key.count == 32 else { throw .invalidLength("a GCM key") }
    context = try unsafe key.withBytes { (key) throws(CryptographyError) in
      try unsafe CipherContext(.aes256GCM, key: key, encrypts: true)
    }
  }

  /// Encrypts a message in place, and writes its tag. No nonce may be used twice.
  func encrypt(
    _ message: UnsafeMutableRawBufferPointer, nonce: UnsafeRawPointer, associatedData: [UInt8],
    tag: UnsafeMutableRawPointer
  ) throws(CryptographyError) {
    try unsafe begin(nonce, encrypts: true)
    try unsafe transform(message, associatedData)
    guard finish() else { throw .failed(to: "finish a message") }
    try check(
      unsafe EVP_CIPHER_CTX_ctrl(context.pointer, EVP_CTRL_AEAD_GET_TAG, CInt(Self.tagSize), tag), "get a tag")
  }

  /// Decrypts a message in place.
  ///
  /// - Throws: `notAuthentic`; the message is then the caller's to wipe.
  func decrypt(
    _ message: UnsafeMutableRawBufferPointer, nonce: UnsafeRawPointer, associatedData: [UInt8],
    tag: UnsafeMutableRawPointer
  ) throws(CryptographyError) {
    try unsafe begin(nonce, encrypts: false)
    try check(
      unsafe EVP_CIPHER_CTX_ctrl(context.pointer, EVP_CTRL_AEAD_SET_TAG, CInt(Self.tagSize), tag), "set a tag")
    try unsafe transform(message, associatedData)
    guard finish() else {
      ERR_clear_error()
      throw .notAuthentic
    }
  }

  private func begin(_ nonce: UnsafeRawPointer, encrypts: Bool) throws(CryptographyError) {
    let nonce = unsafe nonce.assumingMemoryBound(to: UInt8.self)
    try check(
      unsafe EVP_CipherInit_ex(context.pointer, nil, nil, nil, nonce, encrypts ? 1 : 0), "set a nonce")
  }

  private func transform(
    _ message: UnsafeMutableRawBufferPointer, _ associatedData: [UInt8]
  ) throws(CryptographyError) {
    var produced: CInt = 0
    try unsafe associatedData.withBytes { (data) throws(CryptographyError) in
      guard let bytes = unsafe data.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return }
      try check(
        unsafe EVP_CipherUpdate(context.pointer, nil, &produced, bytes, CInt(data.count)), "authenticate data")
    }
    guard let bytes = unsafe message.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return }
    try check(
      unsafe EVP_CipherUpdate(context.pointer, bytes, &produced, bytes, CInt(message.count)), "transform a message")
  }

  /// Ends a message, of which GCM holds no bytes back; false where its tag is another.
  private func finish() -> Bool {
    var (rest, produced): (UInt8, CInt) = (0, 0)
    return unsafe EVP_CipherFinal_ex(context.pointer, &rest, &produced) == 1
  }
}
