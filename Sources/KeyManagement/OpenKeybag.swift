import Cryptography
import ProtectfsPolicy
import StoreFormat

/// A keybag that a secret opened, its seal verified: what class keys and changes are made of. It holds the keybag key, so
/// it lives as short as can be.
package struct OpenKeybag: ~Copyable, Sendable {
  package let keybag: Keybag
  /// The identity of the protector that opened it, 16 bytes.
  package let protectorID: [UInt8]
  let keybagKey: SecretBytes
  let deviceKey: VolumeDeviceKey
  let effaceable: EffaceableSecret

  /// The keys of classes A, B, C and CX.
  ///
  /// - Throws: `keybagAltered` when one does not unwrap, or a public key is not that of its private key.
  package func classKeys() throws(KeyManagementError) -> ClassKeys {
    var keys = ClassKeys()
    for entry in keybag.record.classEntries where entry.fileClass != .none {
      keys.add(try unwrapped(entry), of: entry.fileClass)
    }
    return keys
  }

  /// The keys of classes as they are held in memory; by default those that an unlock yields.
  package func heldKeys(
    of classes: [ProtectionClass] = ProtectionClass.allCases.filter { $0 != .none }
  ) throws(KeyManagementError) -> [ProtectionClass: [HeldKey]] {
    var held: [ProtectionClass: [HeldKey]] = [:]
    for entry in keybag.record.classEntries where classes.contains(entry.fileClass) {
      held[entry.fileClass, default: []].append(HeldKey(try unwrapped(entry)))
    }
    return held
  }

  /// The keys of names, records and directories.
  package func volumeKeys() throws(CryptographyError) -> VolumeKeys {
    try VolumeKeys(deviceKey, storeID: keybag.storeID)
  }

  /// The opened keybag after a change that it made.
  package func following(_ change: borrowing KeybagChange) -> OpenKeybag {
    OpenKeybag(
      keybag: change.keybag, protectorID: protectorID, keybagKey: keybagKey.copy(), deviceKey: deviceKey.copy(),
      effaceable: change.effaceable.isAbsent ? effaceable.copy() : change.effaceable.copy())
  }

  /// The opened keybag as it is now, after changes of others that left the keybag key as it was.
  ///
  /// - Throws: `keybagChangedMeanwhile` for one with another keybag key.
  package func refreshed(
    _ current: Keybag, in file: borrowing KeybagFile
  ) throws(KeyManagementError) -> OpenKeybag {
    do throws(KeyManagementError) {
      try current.require(sealUnder: keybagKey)
    } catch {
      throw error == .keybagAltered ? .keybagChangedMeanwhile : error
    }
    return OpenKeybag(
      keybag: current, protectorID: protectorID, keybagKey: keybagKey.copy(), deviceKey: deviceKey.copy(),
      effaceable: try file.effaceableSecret(of: current))
  }

  /// A class's key.
  func unwrapped(_ entry: KeybagRecord.ClassEntry) throws(KeyManagementError) -> ClassKey {
    do throws(CryptographyError) {
      let secret = try KeyWrap.unwrap(entry.wrappedKey, under: wrappingKey(of: entry.fileClass, effaceable))
      if let publicKey = entry.publicKey, try OnePassDiffieHellman.publicKey(of: secret) != publicKey {
        throw CryptographyError.wrongKey
      }
      return ClassKey(id: entry.id, secret: secret)
    } catch {
      throw KeyManagementError(unwrapping: error)
    }
  }

  /// The key under which the keys of a class are wrapped.
  func wrappingKey(
    of fileClass: ProtectionClass, _ effaceable: borrowing EffaceableSecret
  ) throws(CryptographyError) -> SecretBytes {
    fileClass.isUnlockedByDevice
      ? try effaceable.wrappingKey(with: deviceKey, of: keybag.storeID)
      : try effaceable.wrappingKey(with: keybagKey, of: keybag.storeID)
  }
}

extension Keybag {
  /// The keys of class D, which need no unlock, the current one last.
  ///
  /// - Throws: `keybagAltered` when one does not unwrap.
  package func noneClassKeys(
    deviceKey: borrowing VolumeDeviceKey, effaceable: borrowing EffaceableSecret
  ) throws(KeyManagementError) -> ClassKeys {
    var keys = ClassKeys()
    for entry in record.classEntries where entry.fileClass.isUnlockedByDevice {
      do throws(CryptographyError) {
        let secret = try KeyWrap.unwrap(entry.wrappedKey, under: effaceable.wrappingKey(with: deviceKey, of: storeID))
        keys.add(ClassKey(id: entry.id, secret: secret), of: .none)
      } catch {
        throw KeyManagementError(unwrapping: error)
      }
    }
    return keys
  }
}
