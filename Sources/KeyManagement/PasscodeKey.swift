import Cryptography
import ProtectfsIO
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
  /// - Throws: `tooLittleMemory`.
  static func stretch(
    new passcode: borrowing SecretBytes, cost: ScryptParameters?
  ) throws(KeyManagementError) -> Stretched {
    let salt = try KeyManagementError.wrapping { () throws(CryptographyError) in try randomBytes(32) }
    func stretch(_ cost: ScryptParameters) throws(KeyManagementError) -> Stretched {
      try requireMemory(for: cost)
      let derivation = KeybagRecord.PasscodeDerivation(logN: cost.logN, r: cost.r, p: cost.p, salt: salt)
      return try KeyManagementError.wrapping { () throws(CryptographyError) in
        Stretched(derivation: derivation, secret: try Self.stretch(passcode, derivation))
      }
    }
    if let cost { return try stretch(cost) }
    var latest: Stretched?
    let chosen = try calibrate { (cost) throws(KeyManagementError) in
      let start = MonotonicClock.now
      latest = try stretch(cost)
      return MonotonicClock.now - start
    }
    // It was measured last.
    if let stretched = latest.take() { return stretched }
    return try stretch(chosen)
  }

  /// The lowest cost from ``leastCost`` up that takes ``leastTime``; memory is raised before time.
  ///
  /// - Parameters:
  ///   - fits: whether there is memory for a cost.
  ///   - measure: how long a cost takes.
  static func calibrate(
    fits: (ScryptParameters) -> Bool = hasMemory,
    _ measure: (ScryptParameters) throws(KeyManagementError) -> Duration
  ) throws(KeyManagementError) -> ScryptParameters {
    var chosen = leastCost
    while try isTooFast(chosen, measure) {
      var larger = chosen
      larger.logN += 1
      if larger.logN <= highestLogN, fits(larger) {
        chosen = larger
      } else if chosen.p < highestP {
        chosen.p += 1
      } else {
        break
      }
    }
    return chosen
  }

  private static func isTooFast(
    _ cost: ScryptParameters, _ measure: (ScryptParameters) throws(KeyManagementError) -> Duration
  ) throws(KeyManagementError) -> Bool {
    for _ in 0..<samples where try measure(cost) < leastTime { return true }
    return false
  }

  /// What a derivation is to leave to the rest of the process, and to others in its control group.
  private static let spareMemory: UInt64 = 4 << 20

  /// - Throws: `tooLittleMemory` where the process's control group leaves less than the derivation takes: the kernel
  ///   would kill the process, and with a daemon its mount would go.
  static func requireMemory(for cost: ScryptParameters) throws(KeyManagementError) {
    let needed = cost.memory + spareMemory
    guard let room = ControlGroups().memoryRoom, room.bytes < needed else { return }
    throw .tooLittleMemory(needed: needed, left: room.bytes, limit: room.limit)
  }

  private static func hasMemory(for cost: ScryptParameters) -> Bool {
    do throws(KeyManagementError) { try requireMemory(for: cost) } catch { return false }
    return true
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
    try KeyDerivation.scrypt(passcode: passcode, salt: derivation.salt, parameters: derivation.cost)
  }
}

extension KeybagRecord.PasscodeDerivation {
  var cost: ScryptParameters { ScryptParameters(logN: logN, r: r, p: p) }
}
