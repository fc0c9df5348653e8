import Cryptography
import DataProtection
import Glibc
import StoreFormat

extension Keybag {
  /// A new store's keybag, and its recovery key, which is kept nowhere.
  package struct New: ~Copyable, Sendable {
    package let keybag: Keybag
    package let recoveryKey: RecoveryKey
  }

  /// Makes the keys of a new store.
  ///
  /// - Parameter cost: the cost of scrypt; by default what takes a tenth of a second here, and at least 64 MiB.
  /// - Throws: `invalidPasscode`, `invalidDefaultClass`, `cryptography`.
  package static func create(
    defaultClass: ProtectionClass = .standard, passcode: borrowing SecretBytes,
    deviceKey: borrowing VolumeDeviceKey, storeID: StoreID, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> New {
    try require(passcode: passcode)
    guard defaultClass != .none else { throw .invalidDefaultClass }
    do throws(CryptographyError) {
      let keybagKey = try SecretBytes(randomCount: ClassKey.size)
      let recoveryKey = try RecoveryKey()
      let record = KeybagRecord(
        storeID: storeID, generation: 1, defaultClass: defaultClass,
        deviceKeyIdentifier: try deviceKey.identifier(of: storeID), creationTime: UInt64(max(time(nil), 0)),
        classEntries: try newClassEntries(keybagKey, deviceKey, storeID),
        protectors: sorted([
          try protector(for: passcode, keybagKey, deviceKey, storeID, cost: cost),
          try protector(for: recoveryKey, keybagKey, deviceKey, storeID),
        ]))
      return New(
        keybag: try Keybag(sealing: record, keybagKey: keybagKey, deviceKey: deviceKey), recoveryKey: recoveryKey)
    } catch {
      throw KeyManagementError(error)
    }
  }

  static func require(passcode: borrowing SecretBytes) throws(KeyManagementError) {
    guard (1...longestPasscode).contains(passcode.count) else { throw .invalidPasscode }
  }

  static func sorted(_ protectors: [KeybagRecord.Protector]) -> [KeybagRecord.Protector] {
    protectors.sorted { $0.id.lexicographicallyPrecedes($1.id) }
  }

  private static func newClassEntries(
    _ keybagKey: borrowing SecretBytes, _ deviceKey: borrowing VolumeDeviceKey, _ storeID: StoreID
  ) throws(CryptographyError) -> [KeybagRecord.ClassEntry] {
    var entries: [KeybagRecord.ClassEntry] = []
    for fileClass in ProtectionClass.allCases.sorted(by: { $0.rawValue < $1.rawValue }) {
      // Any 32 bytes are an X25519 private key.
      let key = try SecretBytes(randomCount: ClassKey.size)
      let wrapped =
        fileClass == .none
        ? try KeyWrap.wrap(key, under: deviceKey.key(for: .classNone, of: storeID))
        : try KeyWrap.wrap(key, under: keybagKey)
      let publicKey = fileClass == .completeUnlessOpen ? try OnePassDiffieHellman.publicKey(of: key) : nil
      entries.append(
        KeybagRecord.ClassEntry(fileClass: fileClass, generation: 1, wrappedKey: wrapped, publicKey: publicKey))
    }
    return entries
  }

  /// A way in by passcode, with a salt of its own.
  static func protector(
    for passcode: borrowing SecretBytes, _ keybagKey: borrowing SecretBytes,
    _ deviceKey: borrowing VolumeDeviceKey, _ storeID: StoreID, cost: ScryptParameters?,
    id: [UInt8]? = nil, label: String = "passcode"
  ) throws(CryptographyError) -> KeybagRecord.Protector {
    let chosen = if let cost { cost } else { try PasscodeKey.calibratedCost() }
    let derivation = KeybagRecord.PasscodeDerivation(
      logN: chosen.logN, r: chosen.r, p: chosen.p, salt: try randomBytes(32))
    let key = try PasscodeKey.derive(passcode, derivation, deviceKey, storeID: storeID)
    let identity = if let id { id } else { try randomBytes(16) }
    return KeybagRecord.Protector(
      id: identity, label: label, wrappedKeybagKey: try KeyWrap.wrap(keybagKey, under: key),
      method: .passcode(derivation))
  }

  private static func protector(
    for recoveryKey: borrowing RecoveryKey, _ keybagKey: borrowing SecretBytes,
    _ deviceKey: borrowing VolumeDeviceKey, _ storeID: StoreID
  ) throws(CryptographyError) -> KeybagRecord.Protector {
    let key = try recoveryKey.wrappingKey(of: storeID)
    return KeybagRecord.Protector(
      id: try randomBytes(16), label: "recovery key", wrappedKeybagKey: try KeyWrap.wrap(keybagKey, under: key),
      method: .recoveryKey(wrappedVolumeKey: try KeyWrap.wrap(deviceKey.secret, under: key)))
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
