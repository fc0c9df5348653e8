import Cryptography
import DataProtection
import StoreFormat

// From a passcode or a recovery key to class keys. The keybag key is in memory only in between.
extension Keybag {
  /// The class keys.
  ///
  /// - Throws: `wrongPasscode`; `keybagAltered` when the passcode is right but the seal is wrong.
  package func unlock(
    passcode: borrowing SecretBytes, deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> ClassKeys {
    try classKeys(under: keybagKey(passcode: passcode, deviceKey: deviceKey).key)
  }

  /// The class keys.
  ///
  /// - Throws: `wrongRecoveryKey`; `keybagAltered` when the recovery key is right but the seal is wrong.
  package func unlock(recoveryKey: borrowing RecoveryKey) throws(KeyManagementError) -> ClassKeys {
    try classKeys(under: Self.keys(of: record, recoveryKey: recoveryKey).keybagKey)
  }

  /// The current key of class D, which needs no unlock.
  package func noneClassKey(deviceKey: borrowing VolumeDeviceKey) throws(KeyManagementError) -> ClassKey {
    guard let entry = record.classEntries.last(where: { $0.fileClass == .none }) else { throw .keybagAltered }
    do throws(CryptographyError) {
      return ClassKey(
        generation: entry.generation,
        secret: try KeyWrap.unwrap(entry.wrappedKey, under: deviceKey.key(for: .classNone, of: storeID)))
    } catch {
      throw error == .wrongKey ? .keybagAltered : KeyManagementError(error)
    }
  }

  /// The volume's device key, for a store whose device key is not at hand. The keybag is verified with it.
  ///
  /// - Throws: `unsupportedStore`, `keybagMalformed`, `wrongRecoveryKey`, `keybagAltered`.
  package static func recover(
    _ bytes: [UInt8], recoveryKey: borrowing RecoveryKey
  ) throws(KeyManagementError) -> VolumeDeviceKey {
    let record: KeybagRecord
    do throws(FormatError) { record = try KeybagRecord(parsing: bytes) } catch { throw KeyManagementError(error) }
    let deviceKey = try keys(of: record, recoveryKey: recoveryKey).takeDeviceKey()
    do throws(KeyManagementError) {
      _ = try Keybag(record, deviceKey: deviceKey)
    } catch {
      // The key came out of this keybag: if it is not this keybag's, the keybag was put together from several.
      throw error == .foreignDeviceKey ? .keybagAltered : error
    }
    return deviceKey
  }

  /// The keybag key, and which protector gave it.
  func keybagKey(
    passcode: borrowing SecretBytes, deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> Opened {
    try Self.require(passcode: passcode)
    for (index, protector) in protectors.enumerated() {
      guard case .passcode(let derivation) = protector.method else { continue }
      do throws(CryptographyError) {
        let key = try PasscodeKey.derive(passcode, derivation, deviceKey, storeID: storeID)
        return Opened(key: try KeyWrap.unwrap(protector.wrappedKeybagKey, under: key), protector: index)
      } catch .wrongKey {
        continue
      } catch {
        throw KeyManagementError(error)
      }
    }
    throw .wrongPasscode
  }

  /// A keybag key and the number of the protector that gave it.
  struct Opened: ~Copyable {
    let key: SecretBytes
    let protector: Int
  }

  /// What a recovery key opens.
  struct Recovered: ~Copyable {
    let keybagKey: SecretBytes
    let deviceKey: VolumeDeviceKey

    consuming func takeDeviceKey() -> VolumeDeviceKey { deviceKey }
  }

  /// The keys that a recovery key opens, the seal verified.
  static func keys(
    of record: KeybagRecord, recoveryKey: borrowing RecoveryKey
  ) throws(KeyManagementError) -> Recovered {
    for protector in record.protectors {
      guard case .recoveryKey(let wrappedVolumeKey) = protector.method else { continue }
      do throws(CryptographyError) {
        let key = try recoveryKey.wrappingKey(of: record.storeID)
        return Recovered(
          keybagKey: try KeyWrap.unwrap(protector.wrappedKeybagKey, under: key),
          deviceKey: try VolumeDeviceKey(KeyWrap.unwrap(wrappedVolumeKey, under: key)))
      } catch .wrongKey {
        continue
      } catch {
        throw KeyManagementError(error)
      }
    }
    throw .wrongRecoveryKey
  }

  /// Verifies the seal.
  func require(sealUnder keybagKey: borrowing SecretBytes) throws(KeyManagementError) {
    let seal = try KeyManagementError.wrapping { () throws(CryptographyError) in
      try Self.seal(of: record, keybagKey)
    }
    guard isEqualInConstantTime(seal, record.seal) else { throw .keybagAltered }
  }

  private func classKeys(under keybagKey: borrowing SecretBytes) throws(KeyManagementError) -> ClassKeys {
    try require(sealUnder: keybagKey)
    var keys = ClassKeys()
    for entry in record.classEntries where entry.fileClass != .none {
      do throws(CryptographyError) {
        let secret = try KeyWrap.unwrap(entry.wrappedKey, under: keybagKey)
        if let publicKey = entry.publicKey, try OnePassDiffieHellman.publicKey(of: secret) != publicKey {
          throw CryptographyError.wrongKey
        }
        keys.add(ClassKey(generation: entry.generation, secret: secret), of: entry.fileClass)
      } catch {
        throw error == .wrongKey ? .keybagAltered : KeyManagementError(error)
      }
    }
    return keys
  }
}
