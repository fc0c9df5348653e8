/// The key of one file: 32 random bytes, from which the keys for its contents and extended attributes are derived.
///
/// The key is stored only wrapped, under a class key. A change of class wraps it again or replaces it by a new key,
/// under which the contents are then re-encrypted.
package struct FileKey: ~Copyable, Sendable {
  /// The length of the key, in bytes.
  package static let size = 32

  /// The key itself, for wrapping.
  package let secret: SecretBytes

  /// A key for a new file.
  package init() throws(CryptographyError) {
    secret = try SecretBytes(randomCount: Self.size)
  }

  /// A key that was unwrapped.
  package init(_ secret: consuming SecretBytes) throws(CryptographyError) {
    guard secret.count == Self.size else { throw .invalidLength("a file's key") }
    self.secret = secret
  }

  /// The cipher of the file's contents.
  package func contentsCipher() throws(CryptographyError) -> XTSCipher {
    try XTSCipher(
      key: KeyDerivation.counterMode(key: secret, label: "protectfs xts", count: XTSCipher.keySize))
  }

  /// The cipher of the file's contents in an authenticated store.
  package func pageCipher() throws(CryptographyError) -> PageCipher {
    try PageCipher(
      key: KeyDerivation.counterMode(key: secret, label: "protectfs pages", count: PageCipher.keySize))
  }

  /// The cipher of the values of the file's extended attributes.
  package func attributeCipher() throws(CryptographyError) -> NameCipher {
    try NameCipher(
      key: KeyDerivation.counterMode(
        key: secret, label: "protectfs attribute", count: NameCipher.Strength.aes256.keySize))
  }

  /// Wraps the file's previous key.
  package func wrap(old: borrowing FileKey) throws(CryptographyError) -> [UInt8] {
    try KeyWrap.wrap(old.secret, under: rekeyKey())
  }

  /// Unwraps a key that ``wrap(old:)`` wrapped.
  package func unwrap(old wrapped: [UInt8]) throws(CryptographyError) -> FileKey {
    try FileKey(KeyWrap.unwrap(wrapped, under: rekeyKey()))
  }

  private func rekeyKey() throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.counterMode(key: secret, label: "protectfs rekey", count: Self.size)
  }
}
