import Cryptography
import KeyManagement
import ProtectfsIO

/// A store that is not mounted, taken by this process, its keybag verified.
package struct UnmountedStore: ~Copyable {
  package let backing: Descriptor
  package let file: KeybagFile
  package let keybag: Keybag
  package let deviceKey: VolumeDeviceKey
  private let lock: StoreLock

  /// Takes a store to change its keybag with a secret. A recovery key stands for the device key too.
  package init(_ path: String, deviceKeyFile: String?, secret: borrowing UnlockSecret) throws {
    try self.init(path) { (bytes) throws(KeyManagementError) in
      try secret.deviceKey(forKeybag: bytes, file: deviceKeyFile)
    }
  }

  /// Takes a store to change its keybag without opening it.
  package init(_ path: String, deviceKeyFile: String?) throws {
    try self.init(path) { (bytes) throws(KeyManagementError) in
      try DeviceKey.load(forKeybag: bytes, file: deviceKeyFile)
    }
  }

  private init(_ path: String, _ loadKey: ([UInt8]) throws(KeyManagementError) -> VolumeDeviceKey) throws {
    let backing = try Store.open(path)
    let lock = try Store.lock(backing, path: path, for: .change)
    let bytes = try KeybagFile(backing: backing).read()
    let deviceKey = try loadKey(bytes)
    let keybag = try Keybag(parsing: bytes, deviceKey: deviceKey)
    let file = try KeybagFile(backing: backing, host: deviceKey.host)
    self.keybag = keybag
    self.backing = backing
    self.lock = lock
    self.file = file
    self.deviceKey = deviceKey
  }

  /// Finds out that it is not the second copy alone that opens the store.
  package func requireThatNoOtherOpens() throws(KeyManagementError) {
    let found = try file.authenticKeybags(of: keybag.storeID, deviceKey)
    if !found.currentOpens, found.previousOpens { throw .effaceableSecretMissing }
  }

  /// Gives it new keys, and a recovery key; see ``Keybag/resetting(passcode:deviceKey:effaceable:cost:)``.
  package func reset(passcode: borrowing SecretBytes) throws -> RecoveryKeyText {
    var secret: EffaceableSecret?
    do throws(KeyManagementError) {
      secret = try file.effaceableSecret(of: keybag)
    } catch {
      guard error == .effaceableSecretMissing else { throw error }
    }
    let new = try keybag.resetting(passcode: passcode, deviceKey: deviceKey, effaceable: secret)
    try file.commit(new.change)
    file.forgetAttempts()
    return RecoveryKeyText(try new.recoveryKey.text())
  }

  /// Changes the keybag.
  package func apply(_ edit: borrowing KeybagEdit, with secret: borrowing UnlockSecret) throws(KeyManagementError) {
    if edit.erasedClass != nil { try Store.prepareErasure(of: backing) }
    let applied = try file.apply(edit, to: file.open(keybag, with: secret, deviceKey: deviceKey))
    if let failure = applied.failure { throw failure }
  }
}

/// The keybag of a store that anyone may have, to be read.
package struct StoreReader: ~Copyable {
  private let backing: Descriptor
  private let isBackup: Bool
  private let bytes: [UInt8]

  /// Finds out that there is a store that this version understands, and that it was not erased.
  ///
  /// - Parameter isBackup: wrong passcodes do not erase it: it may have the only copy of what its original has lost.
  package init(_ path: String, isBackup: Bool = false) throws {
    if let time = try StoreSummary.read(path).erasureTime { throw KeyManagementError.storeErased(at: time) }
    let backing = try Store.open(path)
    bytes = try KeybagFile(backing: backing).read()
    self.backing = backing
    self.isBackup = isBackup
  }

  /// Opens the keybag. A recovery key stands for the device key too.
  package func open(with secret: borrowing UnlockSecret, deviceKeyFile: String?) throws -> OpenKeybag {
    let deviceKey = try secret.deviceKey(forKeybag: bytes, file: deviceKeyFile)
    let keybag = try Keybag(parsing: bytes, deviceKey: deviceKey)
    var file = try KeybagFile(backing: backing, host: deviceKey.host)
    if isBackup { file.erasesItself = false }
    // An erasure that was cut short.
    return try file.open(file.tombstone(of: keybag, deviceKey) ?? keybag, with: secret, deviceKey: deviceKey)
  }
}
