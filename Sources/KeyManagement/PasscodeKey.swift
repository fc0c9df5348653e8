import Cryptography
import StoreFormat

/// From a passcode to the key that wraps the keybag key.
enum PasscodeKey {
  /// At least so long takes each guess.
  static let leastTime = Duration.milliseconds(100)
  /// 64 MiB.
  static let leastCost = ScryptParameters(logN: 16, r: 8, p: 1)
  /// 256 MiB: what a small machine can still be asked to have when it unlocks.
  static let highestLogN: UInt8 = 18
  static let highestP: UInt8 = 4

  /// The lowest cost from ``leastCost`` up that takes ``leastTime`` on this machine; memory is raised before time.
  static func calibratedCost() throws(CryptographyError) -> ScryptParameters {
    var cost = leastCost
    let clock = ContinuousClock()
    let passcode = SecretBytes(Array("calibration".utf8))
    while true {
      let start = clock.now
      _ = try KeyDerivation.scrypt(passcode: passcode, salt: [UInt8](repeating: 0, count: 32), parameters: cost)
      if clock.now - start >= leastTime { return cost }
      if cost.logN < highestLogN { cost.logN += 1 } else if cost.p < highestP { cost.p += 1 } else { return cost }
    }
  }

  /// HKDF-SHA256 of `scrypt(passcode) ‖ volume device key`: neither alone is of use.
  static func derive(
    _ passcode: borrowing SecretBytes, _ derivation: KeybagRecord.PasscodeDerivation,
    _ deviceKey: borrowing VolumeDeviceKey, storeID: StoreID
  ) throws(CryptographyError) -> SecretBytes {
    let stretched = try stretch(passcode, derivation)
    return try KeyDerivation.hkdf(
      ikm: SecretBytes(stretched, followedBy: deviceKey.secret), salt: storeID.bytes,
      info: "protectfs passcode key", count: 32)
  }

  /// The key of an exported keybag: no device key, so that another machine can open it.
  static func deriveBackupKey(
    _ passcode: borrowing SecretBytes, _ derivation: KeybagRecord.PasscodeDerivation, storeID: StoreID
  ) throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.hkdf(
      ikm: stretch(passcode, derivation), salt: storeID.bytes, info: "protectfs backup passcode key", count: 32)
  }

  /// 16 bits of a key that a wrong passcode gave.
  static func fingerprint(of key: borrowing SecretBytes, storeID: StoreID) throws(CryptographyError) -> UInt16 {
    let bits = try KeyDerivation.hkdf(ikm: key, salt: storeID.bytes, info: "protectfs wrong passcode", count: 2)
    return unsafe bits.withBytes { unsafe UInt16($0[0]) | UInt16($0[1]) << 8 }
  }

  /// A cost, and a salt of its own.
  static func newDerivation(cost: ScryptParameters?) throws(CryptographyError) -> KeybagRecord.PasscodeDerivation {
    let chosen = if let cost { cost } else { try calibratedCost() }
    return KeybagRecord.PasscodeDerivation(logN: chosen.logN, r: chosen.r, p: chosen.p, salt: try randomBytes(32))
  }

  static func stretch(
    _ passcode: borrowing SecretBytes, _ derivation: KeybagRecord.PasscodeDerivation
  ) throws(CryptographyError) -> SecretBytes {
    let cost = ScryptParameters(logN: derivation.logN, r: derivation.r, p: derivation.p)
    return try KeyDerivation.scrypt(passcode: passcode, salt: derivation.salt, parameters: cost)
  }
}
