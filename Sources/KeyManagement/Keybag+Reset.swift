import Cryptography
import ProtectfsPolicy
import StoreFormat

// What can be done to a keybag that nobody can open any more. It needs the device key only.
extension Keybag {
  /// New keys where the old ones are lost: new ways in, and new keys of classes A, B, C and CX. Files under the old ones
  /// stay unreadable until they are restored from a copy; those of class D stay readable.
  ///
  /// - Parameters:
  ///   - effaceable: `nil` where it is lost; then class D has a new key too.
  /// - Throws: `invalidPasscode`, `storeErased`, `cryptography`.
  package func resetting(
    passcode: borrowing SecretBytes, deviceKey: borrowing VolumeDeviceKey,
    effaceable: consuming EffaceableSecret?, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> Reset {
    try Self.require(passcode: passcode)
    if let time = record.erasureTime { throw .storeErased(at: time) }
    var changed = record
    try changed.advance()
    do throws(CryptographyError) {
      let keybagKey = try SecretBytes(randomCount: ClassKey.size)
      let recoveryKey = try RecoveryKey()
      let isLost = effaceable == nil
      let secret = if let effaceable { effaceable } else { try EffaceableSecret() }
      changed.effaceableIdentifier = try secret.identifier(of: storeID)
      for fileClass in Self.classesInOrder where fileClass != .none || isLost {
        changed.end(.reset) { $0.fileClass == fileClass }
        changed.insert(
          try Self.newClassEntry(fileClass, id: changed.newKeyID(), keybagKey, deviceKey, secret, storeID))
      }
      changed.protectors = Self.sorted([
        try Self.protector(for: passcode, keybagKey, deviceKey, storeID, cost: cost),
        try Self.protector(for: recoveryKey, keybagKey, deviceKey, storeID),
      ])
      changed.trimFormerKeys()
      let keybag = try Keybag(sealing: changed, keybagKey: keybagKey, deviceKey: deviceKey)
      let change = KeybagChange(keybag, effaceable: isLost ? secret : .absent(), revokes: false)
      return Reset(change: change, recoveryKey: recoveryKey)
    } catch {
      throw KeyManagementError(error)
    }
  }

  /// What a reset makes.
  package struct Reset: ~Copyable, Sendable {
    package let change: KeybagChange
    package let recoveryKey: RecoveryKey
  }

  /// The keybag of a store whose keys are all erased: a tombstone with the time of its erasure, which the device key
  /// authenticates. There is nothing in it that could be opened.
  package func erased(deviceKey: borrowing VolumeDeviceKey) throws(KeyManagementError) -> KeybagChange {
    var changed = record
    try changed.advance()
    changed.effaceableIdentifier = nil
    changed.eraseAfter = nil
    changed.protectors = []
    changed.end(.erased) { _ in true }
    changed.trimFormerKeys()
    changed.seal = [UInt8](repeating: 0, count: 32)
    do throws(CryptographyError) {
      changed.tag = try Self.tag(of: changed, deviceKey)
    } catch {
      throw KeyManagementError(error)
    }
    return KeybagChange(try Keybag(changed, deviceKey: deviceKey), revokes: true)
  }
}
