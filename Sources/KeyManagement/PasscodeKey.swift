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

  /// What scrypt made of a new passcode, and how.
  struct Stretched: ~Copyable {
    let derivation: KeybagRecord.PasscodeDerivation
    let secret: SecretBytes
  }

  /// How often a cost is measured before it counts as high enough. What else the machine does makes a guess slower,
  /// never faster: the shorter time is the truer.
  static let samples = 2

  /// Stretches a new passcode, with a salt of its own.
  ///
  /// - Parameter cost: `nil` for the lowest from ``leastCost`` up that takes ``leastTime`` on this machine.
  static func stretch(
    new passcode: borrowing SecretBytes, cost: ScryptParameters?
  ) throws(CryptographyError) -> Stretched {
    let salt = try randomBytes(32)
    func stretch(_ cost: ScryptParameters) throws(CryptographyError) -> Stretched {
      let derivation = KeybagRecord.PasscodeDerivation(logN: cost.logN, r: cost.r, p: cost.p, salt: salt)
      return Stretched(derivation: derivation, secret: try Self.stretch(passcode, derivation))
    }
    if let cost { return try stretch(cost) }
    let clock = ContinuousClock()
    var latest: Stretched?
    let chosen = try calibrate { (cost) throws(CryptographyError) in
      let start = clock.now
      latest = try stretch(cost)
      return clock.now - start
    }
    // It was measured last.
    if let stretched = latest.take() { return stretched }
    return try stretch(chosen)
  }

  /// The lowest cost from ``leastCost`` up that takes ``leastTime``; memory is raised before time.
  ///
  /// - Parameter measure: how long a cost takes.
  static func calibrate(
    _ measure: (ScryptParameters) throws(CryptographyError) -> Duration
  ) throws(CryptographyError) -> ScryptParameters {
    var chosen = leastCost
    while try isTooFast(chosen, measure) {
      if chosen.logN < highestLogN {
        chosen.logN += 1
      } else if chosen.p < highestP {
        chosen.p += 1
      } else {
        break
      }
    }
    return chosen
  }

  private static func isTooFast(
    _ cost: ScryptParameters, _ measure: (ScryptParameters) throws(CryptographyError) -> Duration
  ) throws(CryptographyError) -> Bool {
    for _ in 0..<samples where try measure(cost) < leastTime { return true }
    return false
  }

  /// HKDF-SHA256 of `scrypt(passcode) ‖ volume device key`: neither alone is of use.
  static func derive(
    _ passcode: borrowing SecretBytes, _ derivation: KeybagRecord.PasscodeDerivation,
    _ deviceKey: borrowing VolumeDeviceKey, storeID: StoreID
  ) throws(CryptographyError) -> SecretBytes {
    try key(of: stretch(passcode, derivation), deviceKey, storeID: storeID)
  }

  /// The key of a passcode that was stretched.
  static func key(
    of stretched: borrowing SecretBytes, _ deviceKey: borrowing VolumeDeviceKey, storeID: StoreID
  ) throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.hkdf(
      ikm: SecretBytes(stretched, followedBy: deviceKey.secret), salt: storeID.bytes,
      info: "protectfs passcode key", count: 32)
  }

  /// The key of an exported keybag, of its passcode that was stretched: no device key, so that another machine can open
  /// it.
  static func backupKey(
    of stretched: borrowing SecretBytes, storeID: StoreID
  ) throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.hkdf(ikm: stretched, salt: storeID.bytes, info: "protectfs backup passcode key", count: 32)
  }

  /// 16 bits of a key that a wrong passcode gave, by which this process, and no other, knows the same one again.
  static func fingerprint(of key: borrowing SecretBytes) throws(CryptographyError) -> UInt16 {
    let bits = try KeyDerivation.hkdf(ikm: key, salt: ownSalt.get(), info: "protectfs wrong passcode", count: 2)
    return unsafe bits.withBytes { unsafe UInt16($0[0]) | UInt16($0[1]) << 8 }
  }

  /// Drawn by each process for itself, and kept nowhere.
  private static let ownSalt = Result { () throws(CryptographyError) in try randomBytes(32) }

  static func stretch(
    _ passcode: borrowing SecretBytes, _ derivation: KeybagRecord.PasscodeDerivation
  ) throws(CryptographyError) -> SecretBytes {
    let cost = ScryptParameters(logN: derivation.logN, r: derivation.r, p: derivation.p)
    return try KeyDerivation.scrypt(passcode: passcode, salt: derivation.salt, parameters: cost)
  }
}
