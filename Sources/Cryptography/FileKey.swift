/// The key of one file: 32 random bytes, from which the keys that touch its contents and attributes are derived.
///
/// It is stored only wrapped, under a class key. A change of class wraps it anew, or draws another one, under which the
/// contents are encrypted then.
package struct FileKey: ~Copyable, Sendable {
  /// The length of the key, in bytes.
  package static let size = 32

  /// The key itself, to be wrapped.
  package let secret: SecretBytes

  /// A key for a new file.
  package init() throws(CryptographyError) {
    secret = try SecretBytes(randomCount: Self.size)
  }

  /// The key that was unwrapped.
  package init(_ secret: consuming SecretBytes) throws(CryptographyError) {
    guard secret.count == Self.size else { throw .invalidLength("a file's key") }
    self.secret = secret
  }

  /// The cipher of the file's contents.
  package func contentsCipher() throws(CryptographyError) -> XTSCipher {
    try XTSCipher(
      key: KeyDerivation.counterMode(key: secret, label: "protectfs xts", count: XTSCipher.keySize))
  }

  /// The cipher of the values of the file's extended attributes.
  package func attributeCipher() throws(CryptographyError) -> NameCipher {
    try NameCipher(
      key: KeyDerivation.counterMode(
        key: secret, label: "protectfs attribute", count: NameCipher.Strength.aes256.keySize))
  }

  /// Wraps the key that the file had before this one.
  package func wrap(old: borrowing FileKey) throws(CryptographyError) -> [UInt8] {
    try KeyWrap.wrap(old.secret, under: rekeyKey())
  }

  /// The key that ``wrap(old:)`` wrapped.
  package func unwrap(old wrapped: [UInt8]) throws(CryptographyError) -> FileKey {
    try FileKey(KeyWrap.unwrap(wrapped, under: rekeyKey()))
  }

  private func rekeyKey() throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.counterMode(key: secret, label: "protectfs rekey", count: Self.size)
  }
}
