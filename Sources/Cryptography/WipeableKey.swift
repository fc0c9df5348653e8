import CLibcrypto

/// The key of a cipher, which can be wiped while others hold the cipher: every later use then fails.
struct WipeableKey: ~Copyable, Sendable {
  private var secret: SecretBytes
  private var isWiped = false

  init(_ secret: consuming SecretBytes) { self.secret = secret }

  mutating func wipe() {
    isWiped = true
    unsafe secret.withMutableBytes { unsafe OPENSSL_cleanse($0.baseAddress, $0.count) }
  }

  /// Calls `body` with the key.
  func withBytes<Result: ~Copyable>(
    _ body: (UnsafeRawBufferPointer) throws(CryptographyError) -> Result
  ) throws(CryptographyError) -> Result {
    guard !isWiped else { throw .library(operation: "use a key", reason: "it was wiped") }
    return try unsafe secret.withBytes(body)
  }
}
