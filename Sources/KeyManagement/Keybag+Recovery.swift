import Cryptography
import StoreFormat

// What opens a keybag without the device key, and gives the volume's device key back: the recovery key, and in exported
// keybags the backup passcode.
extension Keybag {
  /// The volume's device key, for a store whose device key is not at hand. The keybag is verified with it.
  ///
  /// - Throws: `unsupportedStore`, `keybagMalformed`, `wrongRecoveryKey`, `keybagAltered`.
  package static func recover(
    _ bytes: [UInt8], recoveryKey: borrowing RecoveryKey
  ) throws(KeyManagementError) -> VolumeDeviceKey {
    let record = try parse(bytes)
    return try verified(keys(of: record, recoveryKey: recoveryKey).takeDeviceKey(), record)
  }

  /// The volume's device key out of an exported keybag.
  ///
  /// - Throws: `unsupportedStore`, `keybagMalformed`, `notABackup`, `wrongPasscode`, `keybagAltered`,
  ///   `tooLittleMemory`.
  package static func recover(
    _ bytes: [UInt8], backupPasscode: borrowing SecretBytes
  ) throws(KeyManagementError) -> VolumeDeviceKey {
    let record = try parse(bytes)
    return try verified(keys(of: record, backupPasscode: backupPasscode).takeDeviceKey(), record)
  }

  /// Opens an exported keybag.
  package static func open(
    exported bytes: [UInt8], backupPasscode: borrowing SecretBytes
  ) throws(KeyManagementError) -> OpenKeybag {
    let record = try parse(bytes)
    let keys = try keys(of: record, backupPasscode: backupPasscode)
    let keybag = try Keybag(record, deviceKey: keys.deviceKey)
    try keybag.require(sealUnder: keys.keybagKey)
    return OpenKeybag(
      keybag: keybag, protectorID: keys.protectorID,
      keys: KeybagKeys(
        keybagKey: keys.keybagKey.copy(), deviceKey: keys.deviceKey, effaceable: .absent(), keybag.storeID))
  }

  /// What a keybag says; nothing of it is verified.
  package static func parse(_ bytes: [UInt8]) throws(KeyManagementError) -> KeybagRecord {
    do throws(FormatError) { return try KeybagRecord(parsing: bytes) } catch { throw KeyManagementError(error) }
  }

  private static func verified(
    _ deviceKey: consuming VolumeDeviceKey, _ record: KeybagRecord
  ) throws(KeyManagementError) -> VolumeDeviceKey {
    do throws(KeyManagementError) {
      _ = try Keybag(record, deviceKey: deviceKey)
    } catch {
      // The key came out of this keybag: if it is not this keybag's, the keybag was put together from several.
      throw error == .foreignDeviceKey ? .keybagAltered : error
    }
    return deviceKey
  }

  /// What such a secret opens.
  struct Recovered: ~Copyable {
    let protectorID: [UInt8]
    let keybagKey: SecretBytes
    let deviceKey: VolumeDeviceKey

    init(
      _ protector: KeybagRecord.Protector, wrappedVolumeKey: [UInt8], under key: borrowing SecretBytes
    ) throws(CryptographyError) {
      let unwrapped = try KeyWrap.unwrap(protector.wrappedKeybagKey, under: key)
      let volumeKey = try VolumeDeviceKey(KeyWrap.unwrap(wrappedVolumeKey, under: key))
      protectorID = protector.id
      keybagKey = unwrapped
      deviceKey = volumeKey
    }

    consuming func takeDeviceKey() -> VolumeDeviceKey { deviceKey }
    consuming func takeKeybagKey() -> SecretBytes { keybagKey }
  }

  /// The keys that a recovery key opens. The seal is not verified yet.
  static func keys(
    of record: KeybagRecord, recoveryKey: borrowing RecoveryKey
  ) throws(KeyManagementError) -> Recovered {
    for protector in record.protectors {
      guard case .recoveryKey(let wrappedVolumeKey) = protector.method else { continue }
      do throws(CryptographyError) {
        let key = try recoveryKey.wrappingKey(of: record.storeID)
        return try Recovered(protector, wrappedVolumeKey: wrappedVolumeKey, under: key)
      } catch .wrongKey {
        continue
      } catch {
        throw KeyManagementError(error)
      }
    }
    throw .wrongRecoveryKey
  }

  private static func keys(
    of record: KeybagRecord, backupPasscode: borrowing SecretBytes
  ) throws(KeyManagementError) -> Recovered {
    try require(passcode: backupPasscode)
    var isBackup = false
    for protector in record.protectors {
      guard case .backupPasscode(let derivation, let wrappedVolumeKey) = protector.method else { continue }
      isBackup = true
      try PasscodeKey.requireMemory(for: derivation.cost)
      do throws(CryptographyError) {
        let key = try PasscodeKey.backupKey(
          of: PasscodeKey.stretch(backupPasscode, derivation), storeID: record.storeID)
        return try Recovered(protector, wrappedVolumeKey: wrappedVolumeKey, under: key)
      } catch .wrongKey {
        continue
      } catch {
        throw KeyManagementError(error)
      }
    }
    throw isBackup ? .wrongPasscode : .notABackup
  }
}
