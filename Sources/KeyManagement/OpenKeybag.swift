import Cryptography
import ProtectfsPolicy
import StoreFormat

/// A keybag that a secret opened, its authentication tags verified: what class keys and changes are made of. It holds
/// the keybag key, so it lives as short as can be.
package struct OpenKeybag: ~Copyable, Sendable {
  package let keybag: Keybag
  /// The identity of the protector that opened it, 16 bytes.
  package let protectorID: [UInt8]
  let keys: KeybagKeys

  /// The class keys that it opens, as they are wrapped for who opened it.
  private var classEntries: [KeybagRecord.ClassEntry] {
    keys.host.map { keybag.record.classEntries(ofHost: $0) } ?? keybag.record.classEntries
  }

  /// Whether a host opened it, which changes no keys.
  package var isOfHost: Bool { keys.host != nil }

  /// The classes whose keys the host that opened it was not given.
  package var missingClasses: [ProtectionClass] {
    keys.host == nil ? [] : keybag.classesMissing(for: keys.deviceKey.host)
  }

  /// The keys of classes, those of a class in their order in the keybag, the current one last; by default those that an
  /// unlock yields: of classes A, B, C and CX.
  ///
  /// - Throws: `keybagAltered` when one does not unwrap, or a public key is not that of its private key.
  package func heldKeys(
    of classes: [ProtectionClass] = ProtectionClass.allCases.filter { $0 != .none }
  ) throws(KeyManagementError) -> [ProtectionClass: [HeldKey]] {
    var held: [ProtectionClass: [HeldKey]] = [:]
    for fileClass in classes {
      let successors = try hostClassKey(of: fileClass)
      for entry in classEntries where entry.fileClass == fileClass {
        held[fileClass, default: []].append(HeldKey(entry.id, try keys.classKey(entry), successors: successors))
      }
    }
    return held
  }

  /// The keys of names, records and directories.
  package func volumeKeys() throws(CryptographyError) -> VolumeKeys {
    try VolumeKeys(keys.deviceKey, storeID: keybag.storeID)
  }

  /// The opened keybag after a change that it made.
  package func following(_ change: borrowing KeybagChange) -> OpenKeybag {
    OpenKeybag(
      keybag: change.keybag, protectorID: protectorID,
      keys: keys.with(change.secret.isAbsent ? keys.effaceable.copy() : change.secret.copy()))
  }

  /// Another keybag with the same keybag key, opened: this one after changes of others, or the second copy.
  ///
  /// - Throws: `keybagChangedMeanwhile` for one with another keybag key.
  package func refreshed(
    _ current: Keybag, in file: borrowing KeybagFile
  ) throws(KeyManagementError) -> OpenKeybag {
    do throws(KeyManagementError) {
      try current.require(sealUnder: keys.keybagKey)
    } catch {
      throw error == .keybagAltered ? .keybagChangedMeanwhile : error
    }
    return OpenKeybag(
      keybag: current, protectorID: protectorID, keys: keys.with(try file.effaceableSecret(of: current)))
  }
}

extension Keybag {
  /// The keys of class D, which need no unlock, the current one last.
  ///
  /// - Throws: `keybagAltered` when one does not unwrap.
  package func noneClassKeys(
    deviceKey: borrowing VolumeDeviceKey, effaceable: borrowing EffaceableSecret
  ) throws(KeyManagementError) -> [HeldKey] {
    var keys: [HeldKey] = []
    for entry in record.classEntries where entry.fileClass.isUnlockedByDevice {
      let secret = try KeyManagementError.wrapping { () throws(CryptographyError) in
        try KeyWrap.unwrap(entry.wrappedKey, under: effaceable.wrappingKey(with: deviceKey, of: storeID))
      }
      keys.append(HeldKey(entry.id, secret))
    }
    return keys
  }
}
