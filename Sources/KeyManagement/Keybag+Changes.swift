import Cryptography
import StoreFormat

// A changed keybag is a new value, one generation on. Only ways in are changed: no class key, so no file.
extension Keybag {
  /// The keybag with a new passcode in place of the old one, at a cost calibrated anew unless given.
  ///
  /// - Throws: `invalidPasscode`, `wrongPasscode`, `keybagAltered`.
  package func changingPasscode(
    from old: borrowing SecretBytes, to new: borrowing SecretBytes, deviceKey: borrowing VolumeDeviceKey,
    cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> Keybag {
    try Self.require(passcode: new)
    let opened = try keybagKey(passcode: old, deviceKey: deviceKey)
    try require(sealUnder: opened.key)
    let replaced = protectors[opened.protector]
    let kept = protectors.filter { $0.id != replaced.id }
    return try adding(
      new, id: replaced.id, label: replaced.label, to: kept, opened.key, deviceKey: deviceKey, cost: cost)
  }

  /// The keybag with a new passcode in place of all passcodes, which are forgotten, or known to the wrong people.
  ///
  /// - Throws: `invalidPasscode`, `wrongRecoveryKey`, `keybagAltered`.
  package func changingPasscode(
    recoveryKey: borrowing RecoveryKey, to new: borrowing SecretBytes, deviceKey: borrowing VolumeDeviceKey,
    cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> Keybag {
    try Self.require(passcode: new)
    let keys = try Self.keys(of: record, recoveryKey: recoveryKey)
    try require(sealUnder: keys.keybagKey)
    let kept = protectors.filter { if case .passcode = $0.method { false } else { true } }
    return try adding(new, id: nil, label: "passcode", to: kept, keys.keybagKey, deviceKey: deviceKey, cost: cost)
  }

  private func adding(
    _ passcode: borrowing SecretBytes, id: [UInt8]?, label: String, to kept: [KeybagRecord.Protector],
    _ keybagKey: borrowing SecretBytes, deviceKey: borrowing VolumeDeviceKey, cost: ScryptParameters?
  ) throws(KeyManagementError) -> Keybag {
    do throws(CryptographyError) {
      let protector = try Self.protector(
        for: passcode, keybagKey, deviceKey, storeID, cost: cost, id: id, label: label)
      var changed = record
      changed.generation += 1
      changed.protectors = Self.sorted(kept + [protector])
      return try Keybag(sealing: changed, keybagKey: keybagKey, deviceKey: deviceKey)
    } catch {
      throw KeyManagementError(error)
    }
  }
}
