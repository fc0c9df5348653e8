import Cryptography
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat

extension Keybag {
  /// A new store's keybag, its effaceable secret, and its recovery key, which is kept nowhere.
  package struct New: ~Copyable, Sendable {
    package let keybag: Keybag
    package let effaceable: EffaceableSecret
    package let recoveryKey: RecoveryKey
  }

  /// Makes the keys of a new store.
  ///
  /// - Parameters:
  ///   - eraseAfter: after how many wrong passcodes the store erases itself; `nil`: never.
  ///   - cost: the cost of scrypt; by default what takes a tenth of a second here, and at least 64 MiB.
  /// - Throws: `invalidPasscode`, `invalidDefaultClass`, `cryptography`.
  package static func create(
    defaultClass: ProtectionClass = .standard, passcode: borrowing SecretBytes,
    deviceKey: borrowing VolumeDeviceKey, storeID: StoreID, eraseAfter: UInt8? = nil, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> New {
    try require(passcode: passcode)
    guard defaultClass != .none else { throw .invalidDefaultClass }
    do throws(CryptographyError) {
      let keybagKey = try SecretBytes(randomCount: ClassKey.size)
      let recoveryKey = try RecoveryKey()
      let effaceable = try EffaceableSecret()
      var record = KeybagRecord(
        storeID: storeID, generation: 1, defaultClass: defaultClass,
        deviceKeyIdentifier: try deviceKey.identifier(of: storeID), creationTime: WallClock.seconds,
        effaceableIdentifier: try effaceable.identifier(of: storeID), eraseAfter: eraseAfter,
        classEntries: [],
        protectors: sorted([
          try protector(for: passcode, keybagKey, deviceKey, storeID, cost: cost),
          try protector(for: recoveryKey, keybagKey, deviceKey, storeID),
        ]))
      for fileClass in classesInOrder {
        record.insert(
          try newClassEntry(fileClass, id: record.newKeyID(), keybagKey, deviceKey, effaceable, storeID))
      }
      let keybag = try Keybag(sealing: record, keybagKey: keybagKey, deviceKey: deviceKey)
      return New(keybag: keybag, effaceable: effaceable, recoveryKey: recoveryKey)
    } catch {
      throw KeyManagementError(error)
    }
  }

  /// The classes in the order of their numbers, in which a keybag has them.
  static let classesInOrder = ProtectionClass.allCases.sorted { $0.rawValue < $1.rawValue }

  static func sorted(_ protectors: [KeybagRecord.Protector]) -> [KeybagRecord.Protector] {
    protectors.sorted { $0.id.lexicographicallyPrecedes($1.id) }
  }

  /// A new key of a class.
  static func newClassEntry(
    _ fileClass: ProtectionClass, id: ClassKeyID, _ keybagKey: borrowing SecretBytes,
    _ deviceKey: borrowing VolumeDeviceKey, _ effaceable: borrowing EffaceableSecret, _ storeID: StoreID
  ) throws(CryptographyError) -> KeybagRecord.ClassEntry {
    // Any 32 bytes are an X25519 private key.
    let key = try SecretBytes(randomCount: ClassKey.size)
    let wrapped =
      fileClass.isUnlockedByDevice
      ? try KeyWrap.wrap(key, under: effaceable.wrappingKey(with: deviceKey, of: storeID))
      : try KeyWrap.wrap(key, under: effaceable.wrappingKey(with: keybagKey, of: storeID))
    let publicKey = fileClass.hasKeyPair ? try OnePassDiffieHellman.publicKey(of: key) : nil
    return KeybagRecord.ClassEntry(fileClass: fileClass, id: id, wrappedKey: wrapped, publicKey: publicKey)
  }
}

// The ways in.
extension Keybag {
  /// A way in by passcode, with a salt of its own.
  static func protector(
    for passcode: borrowing SecretBytes, _ keybagKey: borrowing SecretBytes,
    _ deviceKey: borrowing VolumeDeviceKey, _ storeID: StoreID, cost: ScryptParameters?,
    id: [UInt8]? = nil, label: String = "passcode"
  ) throws(CryptographyError) -> KeybagRecord.Protector {
    let stretched = try PasscodeKey.stretch(new: passcode, cost: cost)
    let key = try PasscodeKey.key(of: stretched.secret, deviceKey, storeID: storeID)
    let identity = if let id { id } else { try randomBytes(16) }
    return KeybagRecord.Protector(
      id: identity, label: label, wrappedKeybagKey: try KeyWrap.wrap(keybagKey, under: key),
      method: .passcode(stretched.derivation))
  }

  static func protector(
    for recoveryKey: borrowing RecoveryKey, _ keybagKey: borrowing SecretBytes,
    _ deviceKey: borrowing VolumeDeviceKey, _ storeID: StoreID, label: String = "recovery key"
  ) throws(CryptographyError) -> KeybagRecord.Protector {
    let key = try recoveryKey.wrappingKey(of: storeID)
    return KeybagRecord.Protector(
      id: try randomBytes(16), label: label, wrappedKeybagKey: try KeyWrap.wrap(keybagKey, under: key),
      method: .recoveryKey(wrappedVolumeKey: try KeyWrap.wrap(deviceKey.secret, under: key)))
  }

  static func protector(
    forKeyFile content: borrowing SecretBytes, _ keybagKey: borrowing SecretBytes,
    _ deviceKey: borrowing VolumeDeviceKey, _ storeID: StoreID, label: String
  ) throws(CryptographyError) -> KeybagRecord.Protector {
    let key = try keyFileKey(content, deviceKey, storeID)
    return KeybagRecord.Protector(
      id: try randomBytes(16), label: label, wrappedKeybagKey: try KeyWrap.wrap(keybagKey, under: key),
      method: .keyFile)
  }

  static func protector(
    forBackup passcode: borrowing SecretBytes, _ keybagKey: borrowing SecretBytes,
    _ deviceKey: borrowing VolumeDeviceKey, _ storeID: StoreID, cost: ScryptParameters?
  ) throws(CryptographyError) -> KeybagRecord.Protector {
    let stretched = try PasscodeKey.stretch(new: passcode, cost: cost)
    let key = try PasscodeKey.backupKey(of: stretched.secret, storeID: storeID)
    return KeybagRecord.Protector(
      id: try randomBytes(16), label: "backup", wrappedKeybagKey: try KeyWrap.wrap(keybagKey, under: key),
      method: .backupPasscode(stretched.derivation, wrappedVolumeKey: try KeyWrap.wrap(deviceKey.secret, under: key)))
  }
}

extension StoreID {
  /// A random identity (RFC 9562, section 5.4: version 4).
  package static func random() throws(CryptographyError) -> StoreID {
    var bytes = try randomBytes(16)
    bytes[6] = bytes[6] & 0x0f | 0x40
    bytes[8] = bytes[8] & 0x3f | 0x80
    guard let id = StoreID(bytes: bytes) else { throw .invalidLength("a store's identity") }
    return id
  }
}
