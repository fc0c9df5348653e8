import Cryptography
import StoreFormat

@testable import KeyManagement

/// The secrets that fuzzed keybags are made right with: the same for each of them.
struct KeybagSecrets: ~Copyable {
  let storeID: StoreID
  let deviceKey: VolumeDeviceKey
  let keybagKey = SecretBytes([UInt8](repeating: 2, count: 32))
  let effaceable = EffaceableSecret(SecretBytes([UInt8](repeating: 3, count: 32)))

  init(of storeID: StoreID) throws(CryptographyError) {
    self.storeID = storeID
    deviceKey = try VolumeDeviceKey(deviceKey: SecretBytes([UInt8](repeating: 1, count: 32)), storeID: storeID)
  }

  func recoveryKey() -> UnlockSecret { .recoveryKey(SecretBytes(Self.recoveryText)) }
  func keyFile() -> UnlockSecret { .keyFile(SecretBytes(Self.keyFileContent)) }

  private static let keyFileContent = [UInt8](repeating: 5, count: 32)
  private static let recoveryText = must("a recovery key") { () throws(CryptographyError) in
    try unsafe RecoveryKey(SecretBytes([UInt8](repeating: 4, count: RecoveryKey.size))).text().withBytes {
      unsafe Array($0)
    }
  }

  /// Wraps a key for each class entry.
  func wrapClassKeys(of record: inout KeybagRecord) throws(CryptographyError) {
    let isEffaceable = record.effaceableIdentifier != nil
    let secret = isEffaceable ? effaceable.copy() : .absent()
    for (index, entry) in record.classEntries.enumerated() {
      let key = SecretBytes([UInt8](repeating: UInt8(truncatingIfNeeded: entry.id.rawValue), count: 32))
      let wrappingKey =
        entry.fileClass == .none
        ? try secret.wrappingKey(with: deviceKey, of: storeID) : try secret.wrappingKey(with: keybagKey, of: storeID)
      record.classEntries[index].wrappedKey = try KeyWrap.wrap(key, under: wrappingKey)
      if entry.publicKey != nil { record.classEntries[index].publicKey = try OnePassDiffieHellman.publicKey(of: key) }
    }
  }

  /// Wraps the keybag key for each protector that does not take a passcode.
  func wrapKeybagKey(in record: inout KeybagRecord) throws(CryptographyError) {
    for (index, protector) in record.protectors.enumerated() {
      switch protector.method {
      case .recoveryKey:
        let recovery = RecoveryKey(SecretBytes([UInt8](repeating: 4, count: RecoveryKey.size)))
        let key = try recovery.wrappingKey(of: storeID)
        record.protectors[index].wrappedKeybagKey = try KeyWrap.wrap(keybagKey, under: key)
        record.protectors[index].method = .recoveryKey(wrappedVolumeKey: try KeyWrap.wrap(deviceKey.secret, under: key))
      case .keyFile:
        let key = try Keybag.keyFileKey(SecretBytes(Self.keyFileContent), deviceKey, storeID)
        record.protectors[index].wrappedKeybagKey = try KeyWrap.wrap(keybagKey, under: key)
      case .passcode, .trustedPlatformModule, .backupPasscode, .host: break
      }
    }
  }
}
