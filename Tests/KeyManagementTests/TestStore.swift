import Cryptography
import ProtectfsPolicy
import StoreFormat
import Synchronization
import TestVectors

@testable import KeyManagement

/// The store of the vector `keybag.json`, and the secrets that open it.
struct TestStore: Decodable, Sendable {
  let storeID, deviceKey, keybagKey, keybag: Hex
  let effaceable: Hex?
  let recoveryText: String
  let classKeys: [ClassKeyVector]
  let protectors: [Protector]

  struct ClassKeyVector: Decodable, Sendable {
    let `class`: UInt8
    let id: UInt32
    let key: Hex
  }

  struct Protector: Decodable, Sendable {
    let type: String
    let passcode, recoveryKey, keyFile: Hex?
  }

  /// scrypt at the lowest cost that a keybag may have.
  static let cost = ScryptParameters(logN: 16, r: 8, p: 1)

  /// The first keybag is minimal; the second has everything; the third is erased; the fourth was reset.
  static func read(_ index: Int = 0) throws -> TestStore { try VectorFile.read("StoreFormatTests/keybag")[index] }

  func id() throws -> StoreID {
    guard let id = StoreID(bytes: storeID.bytes) else { throw KeyManagementError.keybagMissing }
    return id
  }

  func volumeKey() throws -> VolumeDeviceKey {
    try VolumeDeviceKey(deviceKey: SecretBytes(deviceKey.bytes), storeID: id())
  }

  func passcode() -> SecretBytes { SecretBytes(protectors[0].passcode?.bytes ?? []) }

  func recoveryKey() throws -> RecoveryKey { try RecoveryKey(parsing: SecretBytes(Array(recoveryText.utf8))) }

  func parsed() throws -> Keybag { try Keybag(parsing: keybag.bytes, deviceKey: volumeKey()) }

  /// A new keybag of the store, at the lowest cost; the same one each time, as scrypt is most of what a test would
  /// take.
  func created(eraseAfter: UInt8? = nil) throws -> NewKeybag {
    let made = try Self.made.withLock { all in
      if let made = all[eraseAfter] { return made }
      let new = try Keybag.create(
        passcode: passcode(), deviceKey: volumeKey(), storeID: id(), eraseAfter: eraseAfter, cost: Self.cost)
      let made = try Made(
        keybag: new.keybag, effaceable: new.change.secret.secret.exposed(),
        recoveryKey: new.recoveryKey.text().exposed())
      all[eraseAfter] = made
      return made
    }
    return try NewKeybag(
      KeybagChange(
        made.keybag, secret: EffaceableSecret(SecretBytes(made.effaceable)), over: .nothing, .creation),
      RecoveryKey(parsing: SecretBytes(made.recoveryKey)))
  }

  private struct Made: Sendable {
    let keybag: Keybag
    let effaceable, recoveryKey: [UInt8]
  }

  private static let made = Mutex<[UInt8?: Made]>([:])

  func effaceableSecret() -> EffaceableSecret { EffaceableSecret(SecretBytes(effaceable?.bytes ?? [])) }

  /// The class keys that an unlock returns, according to the vector.
  func expectedKeys(of fileClass: ProtectionClass) -> [ExposedKey] {
    classKeys.filter { $0.class == fileClass.rawValue }.map { ExposedKey(id: $0.id, bytes: $0.key.bytes) }
  }
}

extension Keybag {
  /// The class keys of a store without an effaceable secret.
  func unlock(
    passcode: consuming SecretBytes, deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> [ProtectionClass: [HeldKey]] {
    try open(passcode: passcode, deviceKey: deviceKey).heldKeys()
  }

  func open(
    passcode: consuming SecretBytes, deviceKey: borrowing VolumeDeviceKey,
    effaceable: consuming EffaceableSecret = .absent()
  ) throws(KeyManagementError) -> OpenKeybag {
    try open(.passcode(passcode), deviceKey: deviceKey, effaceable: effaceable)
  }

  func open(
    recoveryKey: borrowing RecoveryKey, effaceable: consuming EffaceableSecret = .absent()
  ) throws -> OpenKeybag {
    let deviceKey = try Keybag.recover(bytes, recoveryKey: recoveryKey)
    return try open(.recoveryKey(recoveryKey.text()), deviceKey: deviceKey, effaceable: effaceable)
  }
}

/// A class key that can be compared.
struct ExposedKey: Equatable {
  let id: UInt32
  let bytes: [UInt8]

  init(id: UInt32, bytes: [UInt8]) {
    self.id = id
    self.bytes = bytes
  }

  init(_ key: HeldKey) {
    id = key.id.rawValue
    bytes = key.secret.exposed()
  }
}

extension [ProtectionClass: [HeldKey]] {
  /// All keys, by class.
  func exposed() -> [ProtectionClass: [ExposedKey]] {
    var keys: [ProtectionClass: [ExposedKey]] = [:]
    for fileClass in ProtectionClass.allCases { keys[fileClass] = self[fileClass, default: []].map { ExposedKey($0) } }
    return keys
  }
}

extension String {
  /// Text that a user typed.
  var secret: SecretBytes { SecretBytes(Array(utf8)) }
}
