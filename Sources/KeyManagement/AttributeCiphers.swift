import Cryptography
import StoreFormat

/// The ciphers of the values of a file's encrypted attributes: under its key, and, while a rekey is pending, under the
/// one before, for those that were not written since.
package struct AttributeCiphers: Sendable {
  /// The one for what is written from now on.
  package let current: NameCipher
  private let old: NameCipher?

  /// The ciphers under the key that a record wraps.
  package init(_ key: borrowing FileKey, _ record: FileRecord) throws(CryptographyError) {
    current = try key.attributeCipher()
    old = if let pending = record.pending { try key.unwrap(old: pending.wrappedOldKey).attributeCipher() } else { nil }
  }

  /// The cipher of values under a key that stays.
  package init(current: NameCipher) {
    self.current = current
    old = nil
  }

  /// The value, and whether it was under the old key.
  package func decrypt(_ encrypted: [UInt8], _ associatedData: [UInt8]) throws(CryptographyError) -> (
    value: [UInt8], isOld: Bool
  ) {
    do throws(CryptographyError) {
      return (try current.decrypt(encrypted, associatedData: associatedData), false)
    } catch {
      guard let old else { throw error }
      return (try old.decrypt(encrypted, associatedData: associatedData), true)
    }
  }
}
