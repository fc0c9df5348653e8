import Cryptography
import DataProtectionCore
import StoreFormat

/// The keybag of a store: what is needed, beside a passcode or a recovery key, to have its class keys. It is no secret.
///
/// A value of this type was parsed, and its tag verified with the device's key.
package struct Keybag: Sendable, Equatable {
  /// The longest passcode, in bytes. It is used as typed, without normalisation.
  package static let longestPasscode = 1024

  /// What the file holds.
  package let record: KeybagRecord

  /// The store's identity.
  package var storeID: StoreID { record.storeID }
  /// Grows by one with each rewriting.
  package var generation: UInt64 { record.generation }
  /// The class that the root directory of the store was made with.
  package var defaultClass: ProtectionClass { record.defaultClass }
  /// The ways in.
  package var protectors: [KeybagRecord.Protector] { record.protectors }
  /// The bytes of the file.
  package var bytes: [UInt8] { record.bytes }

  /// When the whole store was erased, in seconds since 1970; `nil` while it was not.
  package var erasureTime: UInt64? { record.erasureTime }

  /// The generations of a class's keys that are there, the current one last.
  package func generations(of fileClass: ProtectionClass) -> [UInt32] {
    record.classEntries.filter { $0.fileClass == fileClass && $0.erasureTime == nil }.map(\.generation)
  }

  /// The highest generation of a class's keys, erased ones included.
  package func highestGeneration(of fileClass: ProtectionClass) -> UInt32 { record.highestGeneration(of: fileClass) }

  /// The public keys of class B by their generations.
  package var publicKeys: [UInt32: [UInt8]] {
    var keys: [UInt32: [UInt8]] = [:]
    for entry in record.classEntries { keys[entry.generation] = entry.publicKey ?? keys[entry.generation] }
    return keys
  }

  /// Whether it has the key of a class that a record names.
  package func hasKey(of fileClass: ProtectionClass, generation: UInt32) -> Bool {
    generations(of: fileClass).contains(generation)
  }

  /// The class keys that another keybag of the store has, and this one lacks.
  package func lacking(keysOf other: Keybag) -> [KeybagRecord.ClassEntry] {
    other.record.classEntries.filter {
      $0.erasureTime == nil && !hasKey(of: $0.fileClass, generation: $0.generation)
    }
  }

  /// Those, and the ones of which this one has a key under the same number that may be another. The first key of a class
  /// is the same wherever the store was copied to; later ones each copy gives itself.
  package func mayLack(keysOf other: Keybag) -> [KeybagRecord.ClassEntry] {
    other.record.classEntries.filter { entry in
      guard entry.erasureTime == nil else { return false }
      return !record.classEntries.contains {
        $0.fileClass == entry.fileClass && $0.generation == entry.generation && $0.erasureTime == nil
          && ($0.generation == 1 || $0.isSurelySame(as: entry))
      }
    }
  }

  /// Reads a keybag and verifies it.
  ///
  /// - Throws: `unsupportedStore`, `keybagMalformed`; `foreignDeviceKey` when the device key is another store's or
  ///   machine's; `keybagAltered` when it is the right one, but the tag is wrong.
  package init(parsing bytes: [UInt8], deviceKey: borrowing VolumeDeviceKey) throws(KeyManagementError) {
    let record: KeybagRecord
    do throws(FormatError) { record = try KeybagRecord(parsing: bytes) } catch { throw KeyManagementError(error) }
    try self.init(record, deviceKey: deviceKey)
  }

  init(_ record: KeybagRecord, deviceKey: borrowing VolumeDeviceKey) throws(KeyManagementError) {
    let (identifier, tag) = try KeyManagementError.wrapping { () throws(CryptographyError) in
      (try deviceKey.identifier(of: record.storeID), try Self.tag(of: record, deviceKey))
    }
    guard isEqualInConstantTime(identifier, record.deviceKeyIdentifier) else { throw .foreignDeviceKey }
    guard isEqualInConstantTime(tag, record.tag) else { throw .keybagAltered }
    self.record = record
  }

  /// A keybag just made or changed: given its seal and its tag.
  init(
    sealing record: KeybagRecord, keybagKey: borrowing SecretBytes, deviceKey: borrowing VolumeDeviceKey
  ) throws(CryptographyError) {
    var record = record
    record.seal = try Self.seal(of: record, keybagKey)
    record.tag = try Self.tag(of: record, deviceKey)
    self.record = record
  }

  /// The MAC that only who has the device's key can make. It is checked before anything else is believed.
  static func tag(
    of record: KeybagRecord, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(CryptographyError) -> [UInt8] {
    try RecordAuthenticator(key: deviceKey.key(for: .keybag, of: record.storeID)).code("", record.bytesBeforeTag)
  }

  /// The MAC that only who can unlock can make. Who has the device's key alone cannot exchange a public key unnoticed.
  static func seal(of record: KeybagRecord, _ keybagKey: borrowing SecretBytes) throws(CryptographyError) -> [UInt8] {
    let key = try KeyDerivation.hkdf(
      ikm: keybagKey, salt: record.storeID.bytes, info: "protectfs keybag seal", count: 32)
    return try RecordAuthenticator(key: key).code("", record.bytesBeforeSeal)
  }
}
