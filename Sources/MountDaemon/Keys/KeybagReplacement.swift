import Cryptography
import KeyManagement
import ProtectfsIO
import StoreFormat

// A keybag that is to take the place of a store's own: what it is found to be first, so that the user can be asked, and
// then the step itself. The store is taken meanwhile.

/// The second copy of a keybag, to be put back in place.
package struct KeybagRestoration: ~Copyable {
  package let previous: Keybag
  private let file: KeybagFile
  private let found: AuthenticKeybags
  private let lock: StoreLock

  /// Takes the store; `nil` where the second copy is the same as the keybag in place.
  ///
  /// - Throws: for a copy that is missing, not authentic, erased, or without its effaceable secret: it is of no use.
  package init?(_ path: String, deviceKeyFile: String?) throws {
    let backing = try Store.open(path)
    let lock = try Store.lock(backing, path: path, for: .change)
    let file = try KeybagFile(backing: backing)
    try file.finishRestoration()
    let bytes = try file.readPrevious()
    let deviceKey = try DeviceKey.load(forKeybag: bytes, file: deviceKeyFile)
    guard !deviceKey.isOfHost else { throw KeyManagementError.hostsChangeNothing }
    let previous = try Keybag(parsing: bytes, deviceKey: deviceKey)
    let found = try file.authenticKeybags(of: previous.storeID, deviceKey)
    if found.bytes == previous.bytes { return nil }
    try found.requireNoneErased()
    _ = try file.effaceableSecret(of: previous)
    self.previous = previous
    self.file = file
    self.found = found
    self.lock = lock
  }

  package func commit() throws(KeyManagementError) { try file.restore(previous, over: found) }
}

/// An exported keybag, to be put in the place of a store's own.
package struct KeybagImport: ~Copyable {
  /// The class keys that the store has and the exported keybag lacks: class and key.
  package let lost: [String]
  /// Whether the store's second copy opens it, and the keybag in place does not.
  package let isRestorationBetter: Bool
  private let exported: OpenKeybag
  private let file: KeybagFile
  private let found: AuthenticKeybags
  private let lock: StoreLock

  /// Takes the store, whose keybag may be damaged or missing.
  ///
  /// - Throws: `foreignKeybag` for that of another store.
  package init(_ exported: consuming OpenKeybag, into path: String) throws {
    let backing = try Store.open(path)
    let lock = try Store.lock(backing, path: path, for: .change)
    let file = try KeybagFile(backing: backing)
    let found = try file.authenticKeybags(beside: exported)
    let keybag = exported.keybag
    // A keybag that does not authenticate may say anything, but another store's is not to be overwritten.
    if found.all.isEmpty, let bytes = found.bytes, let record = try? KeybagRecord(parsing: bytes),
      record.storeID != keybag.storeID
    {
      throw KeyManagementError.foreignKeybag
    }
    var lost: [String] = []
    for entry in found.all.flatMap({ keybag.lacking(keysOf: $0) }) {
      let name = "\(entry.fileClass.letter) (key \(entry.id))"
      if !lost.contains(name) { lost.append(name) }
    }
    self.lost = lost
    isRestorationBetter = !found.currentOpens && found.previousOpens
    self.exported = exported
    self.file = file
    self.found = found
    self.lock = lock
  }

  /// Puts it in place, with a new passcode and a new recovery key. The device's part of the keys is kept before that,
  /// where no device key at hand has it: sealed in the TPM perhaps, it is not to lie about beside that.
  ///
  /// - Parameters:
  ///   - bytes: the exported keybag, which the backup passcode opens.
  /// - Returns: the recovery key, and where the device's part of the keys is kept, if it is.
  package func commit(
    passcode: borrowing SecretBytes, _ bytes: [UInt8], backupPasscode: borrowing SecretBytes, deviceKeyFile: String?
  ) throws -> (recoveryKey: RecoveryKeyText, keptDeviceKey: PathName?) {
    let new = try exported.replacement(over: found, passcode: passcode)
    let storeID = new.keybag.storeID
    var kept: PathName?
    let hasKey =
      deviceKeyFile.map { DeviceKey.opens(bytes, of: storeID, file: PathName($0)) } == true
      || DeviceKey.opens(bytes, of: storeID)
    if !hasKey { kept = try DeviceKey.keep(Keybag.recover(bytes, backupPasscode: backupPasscode), for: storeID) }
    try file.commit(new.change)
    file.forgetAttempts()
    return (RecoveryKeyText(try new.recoveryKey.text()), kept)
  }
}
