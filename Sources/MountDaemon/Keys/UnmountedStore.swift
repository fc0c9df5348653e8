import Cryptography
import KeyManagement
import ProtectfsIO
import StoreFormat
import SystemPackage

/// A store that is not mounted, taken by this process, its keybag verified.
package struct UnmountedStore: ~Copyable {
  package let backing: Descriptor
  package let file: KeybagFile
  package let keybag: Keybag
  package let deviceKey: VolumeDeviceKey
  private let lock: StoreLock

  /// Takes a store to change its keybag with a secret. A recovery key stands for the device key too.
  package init(_ path: String, deviceKeyFile: String?, secret: borrowing UnlockSecret) throws {
    try self.init(path) { (bytes, storeID) throws(KeyManagementError) in
      if let key = try secret.recoveredDeviceKey(bytes) { return key }
      return try DeviceKey.load(for: storeID, file: deviceKeyFile.map { PathName($0) })
    }
  }

  /// Takes a store to change its keybag without opening it.
  package init(_ path: String, deviceKeyFile: String?) throws {
    try self.init(path) { (_, storeID) throws(KeyManagementError) in
      try DeviceKey.load(for: storeID, file: deviceKeyFile.map { PathName($0) })
    }
  }

  private init(
    _ path: String, _ loadKey: ([UInt8], StoreID) throws(KeyManagementError) -> VolumeDeviceKey
  ) throws {
    let backing = try Store.open(path)
    let lock = try Store.lock(backing, path: path, for: .change)
    let file = try KeybagFile(backing: backing)
    let bytes = try file.read()
    let deviceKey = try loadKey(bytes, try StoreSummary.parse(bytes).storeID)
    keybag = try Keybag(parsing: bytes, deviceKey: deviceKey)
    self.backing = backing
    self.lock = lock
    self.file = file
    self.deviceKey = deviceKey
  }

  /// The effaceable secret; `nil` where it is lost.
  package func effaceableSecretIfAny() throws(KeyManagementError) -> EffaceableSecret? {
    do throws(KeyManagementError) {
      return try file.effaceableSecret(of: keybag)
    } catch {
      guard error == .effaceableSecretMissing else { throw error }
    }
    return nil
  }

  /// Finds out that it is not the second copy alone that opens the store.
  package func requireThatNoOtherOpens() throws(KeyManagementError) {
    let found = try file.authenticKeybags(of: keybag.storeID, deviceKey)
    if !found.currentOpens, found.previousOpens { throw .effaceableSecretMissing }
  }

  /// Changes the keybag.
  package func apply(_ edit: borrowing KeybagEdit, with secret: borrowing UnlockSecret) throws(KeyManagementError) {
    let applied = try file.apply(edit, to: file.open(keybag, with: secret, deviceKey: deviceKey))
    if let failure = applied.failure { throw failure }
  }
}

/// The keybag of a store that anyone may have, to be read.
package struct StoreReader: ~Copyable {
  private let file: KeybagFile
  private let bytes: [UInt8]

  /// Finds out that there is a store that this version understands.
  package init(_ path: String) throws {
    try StoreSummary.requireStore(path)
    let file = try KeybagFile(backing: Store.open(path))
    bytes = try file.read()
    self.file = file
  }

  /// Opens the keybag. A recovery key stands for the device key too.
  package func open(with secret: borrowing UnlockSecret, deviceKeyFile: String?) throws -> OpenKeybag {
    if let deviceKey = try secret.recoveredDeviceKey(bytes) { return try open(with: secret, deviceKey) }
    return try open(
      with: secret, DeviceKey.load(for: StoreSummary.parse(bytes).storeID, file: deviceKeyFile.map { PathName($0) }))
  }

  private func open(
    with secret: borrowing UnlockSecret, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> OpenKeybag {
    try file.open(Keybag(parsing: bytes, deviceKey: deviceKey), with: secret, deviceKey: deviceKey)
  }
}
