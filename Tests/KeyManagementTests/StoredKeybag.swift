import Cryptography

@testable import KeyManagement

/// The first keybag of a store in its place, in a separate directory.
struct StoredKeybag: ~Copyable {
  let store: TestStore
  let directory: TemporaryDirectory
  let file: KeybagFile
  let deviceKey: VolumeDeviceKey
  let new: NewKeybag

  init(eraseAfter: UInt8? = nil) throws {
    let store = try TestStore.read()
    let deviceKey = try store.volumeKey()
    let directory = try TemporaryDirectory()
    try KeybagFile.makeDirectory(in: directory.descriptor)
    let file = try KeybagFile(backing: directory.descriptor)
    let new = try store.created(eraseAfter: eraseAfter)
    try file.commit(new.change)
    self.store = store
    self.deviceKey = deviceKey
    self.directory = directory
    self.file = file
    self.new = new
  }

  var keybag: Keybag { new.keybag }

  /// Opens the first keybag like a process that tries one secret.
  func open(_ secret: borrowing UnlockSecret) throws -> OpenKeybag {
    try file.open(keybag, with: secret, deviceKey: deviceKey)
  }

  /// The wrong passcodes that the store has counted.
  func attempts() throws -> PasscodeAttempts { try file.attempts(keybag, deviceKey) }
}
