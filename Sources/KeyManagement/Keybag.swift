import Cryptography
import ProtectfsPolicy
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
  /// What opens it.
  package var protectors: [KeybagRecord.Protector] { record.protectors }
  /// The bytes of the file.
  package var bytes: [UInt8] { record.bytes }

  /// When the whole store was erased, in seconds since 1970; `nil` while it was not.
  package var erasureTime: UInt64? { record.erasureTime }

  /// The identifiers of a class's keys, the current one last.
  package func keyIDs(of fileClass: ProtectionClass) -> [ClassKeyID] {
    record.classEntries.filter { $0.fileClass == fileClass }.map(\.id)
  }

  /// The public keys of class B.
  package var publicKeys: [ClassKeyID: [UInt8]] {
    var keys: [ClassKeyID: [UInt8]] = [:]
    for entry in record.classEntries { keys[entry.id] = entry.publicKey }
    return keys
  }

  /// Whether it has the class key that a record names.
  package func hasKey(of record: FileRecord) -> Bool { keyIDs(of: record.fileClass).contains(record.classKeyID) }

  /// Whether a class key is known to be no more.
  package func isRetired(_ id: ClassKeyID) -> Bool { record.formerKeys.contains { $0.id == id } }

  /// The class keys that another keybag of the store has, and this one lacks.
  package func lacking(keysOf other: Keybag) -> [KeybagRecord.ClassEntry] {
    let ids = Set(record.classEntries.map(\.id))
    return other.record.classEntries.filter { !ids.contains($0.id) }
  }

  /// Reads a keybag and verifies it.
  ///
  /// - Throws: `unsupportedStore`, `keybagMalformed`; `foreignDeviceKey` when the device key is another store's or
  ///   machine's; `keybagAltered` when it is the right one, but the tag is wrong.
  package init(parsing bytes: [UInt8], deviceKey: borrowing VolumeDeviceKey) throws(KeyManagementError) {
    try self.init(Self.parse(bytes), deviceKey: deviceKey)
  }

  init(_ record: KeybagRecord, deviceKey: borrowing VolumeDeviceKey) throws(KeyManagementError) {
    let (identifier, tag) = try KeyManagementError.wrapping { () throws(CryptographyError) in
      (try deviceKey.identifier(of: record.storeID), try Self.tag(of: record, deviceKey))
    }
    guard isEqualInConstantTime(identifier, record.deviceKeyIdentifier) else { throw .foreignDeviceKey }
    guard isEqualInConstantTime(tag, record.tag) else { throw .keybagAltered }
    self.record = record
  }

  /// A keybag just made or changed, given its two authentication tags. Former keys for which there is no room are
  /// forgotten.
  ///
  /// - Throws: `keybagFull`.
  init(
    authenticating record: KeybagRecord, keybagKey: borrowing SecretBytes, deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) {
    var record = record
    record.trimFormerKeys()
    guard record.hasRoom else { throw .keybagFull }
    self.record = try KeyManagementError.wrapping { [record] () throws(CryptographyError) in
      var record = record
      record.seal = try Self.seal(of: record, keybagKey)
      record.tag = try Self.tag(of: record, deviceKey)
      return record
    }
  }

  /// The keybag of this store after all its keys were erased: a tombstone with the time of the erasure, which the
  /// device key authenticates. There is nothing in it that could be opened.
  ///
  /// It comes after a keybag of the last generation too, which whoever has the device key can write there.
  package func erased(deviceKey: borrowing VolumeDeviceKey) throws(KeyManagementError) -> Keybag {
    var changed = record
    changed.generation = max(changed.generation, changed.generation &+ 1)
    changed.effaceableIdentifier = nil
    changed.eraseAfter = nil
    changed.protectors = []
    changed.end(.erased) { _ in true }
    changed.trimFormerKeys()
    changed.seal = [UInt8](repeating: 0, count: 32)
    changed.tag = try KeyManagementError.wrapping { [changed] () throws(CryptographyError) in
      try Self.tag(of: changed, deviceKey)
    }
    return try Keybag(changed, deviceKey: deviceKey)
  }

  /// The MAC that only who has the device's key can make. It is checked before anything else is believed.
  static func tag(
    of record: KeybagRecord, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(CryptographyError) -> [UInt8] {
    try RecordAuthenticator(key: deviceKey.key(for: .keybag, of: record.storeID)).code("", record.bytesBeforeTag)
  }

  /// The MAC that only who can unlock can make. Who has the device's key alone cannot exchange a public key unnoticed.
  static func seal(of record: KeybagRecord, _ keybagKey: borrowing SecretBytes) throws(CryptographyError) -> [UInt8] {
    try RecordAuthenticator(key: sealKey(of: record.storeID, keybagKey)).code("", record.bytesBeforeSeal)
  }

  /// The MAC that only a host, and who can unlock, can make. Another host cannot exchange a public key unnoticed.
  static func seal(
    of record: KeybagRecord, for host: KeybagRecord.Protector, _ sealKey: borrowing SecretBytes
  ) throws(CryptographyError) -> [UInt8] {
    try RecordAuthenticator(key: sealKey.copy()).code("", record.bytesBeforeProtectors + host.bytesBeforeSeal)
  }

  /// What a keybag key, or a host key, gives for the seal.
  static func sealKey(of storeID: StoreID, _ key: borrowing SecretBytes) throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.hkdf(ikm: key, salt: storeID.bytes, info: "protectfs keybag seal", count: 32)
  }
}
