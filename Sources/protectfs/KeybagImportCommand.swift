import ArgumentParser
import Cryptography
import DataProtectionCore
import KeyManagement
import LinuxIO
import MountDaemon
import StoreFormat
import SystemPackage

/// `protectfs keybag import`
struct KeybagImportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "import",
    abstract: "Take the keys of an exported keybag into a store.",
    discussion: """
      On the machine that made the store, and with something that opens it: adds class keys that were reset or erased, so \
      that files under them open again. With --replace, on another machine or when nothing opens the store any more: the \
      keybag takes the place of the store's own; a new passcode is asked for, a new recovery key is printed, and the \
      device's part is kept beside the device key.

      Examples:
        protectfs keybag import --backup private.keybag ~/.private
        protectfs keybag import --replace --backup private.keybag /srv/copy
      """)

  @Argument(help: ArgumentHelp("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @Option(help: ArgumentHelp("The exported keybag.", valueName: "file"), completion: .file())
  var backup: String

  @Flag(help: "Put it in the place of the store's own keybag.")
  var replace = false

  @Flag(help: "Do not ask.")
  var yes = false

  @OptionGroup var backupPasscode: BackupPasscodeOptions

  @OptionGroup var newPasscode: NewPasscodeOptions

  @Option(
    help: ArgumentHelp(
      "With --replace, write the recovery key to a new file instead of printing it.", valueName: "file"))
  var newRecoveryKeyFile: String?

  @OptionGroup var opening: OpeningOptions

  @OptionGroup var deviceKey: DeviceKeyOptions

  func validate() throws {
    guard replace || (!newPasscode.isGiven && newRecoveryKeyFile == nil) else {
      throw ValidationError("A new passcode and a new recovery key come with --replace only.")
    }
  }

  func run() throws {
    let path = try CanonicalPath.ofBacking(backing)
    let bytes = try readBackup()
    let passcode = try backupPasscode.source.read("Backup passcode")
    let exported = try Keybag.open(exported: bytes, backupPasscode: passcode)
    if replace { return try replaceKeybag(of: path, with: exported, bytes, passcode) }
    try StoreSummary.requireStore(path)
    let secret = try opening.read()
    let store = try UnmountedStore(path, deviceKey: deviceKey, secret: secret)
    try store.change(with: secret) { (opened) throws(KeyManagementError) in try opened.adding(keysOf: exported) }
    print("The keys were imported.")
  }

  private func readBackup() throws(CommandFailure) -> [UInt8] {
    do throws(Errno) {
      return try Descriptor.open(PathName(backup), [.readOnly]).readAll(limit: KeybagRecord.longest + 1)
    } catch {
      throw CommandFailure(backup, error)
    }
  }

  private func replaceKeybag(
    of path: String, with exported: borrowing OpenKeybag, _ bytes: [UInt8], _ passcode: borrowing SecretBytes
  ) throws {
    let directory = try Store.open(path)
    let lock = try Store.lock(directory, path: path, for: .change)
    let file = try KeybagFile(backing: directory)
    let current = try currentRecord(file, exported)
    let output = try newRecoveryKeyFile.map { try NewSecretFile(path: $0) }
    do {
      let new = try exported.replacement(over: current, passcode: newPasscode.read())
      let kept = try DeviceKey.keep(
        Keybag.recover(bytes, backupPasscode: passcode), for: new.keybag.storeID)
      try file.replaceUnopened(with: new.keybag, new.effaceable)
      file.forgetAttempts()
      print("The keybag was imported. The device's part of the keys is kept as \(kept).")
      try RecoveryKeyOutput.show(new.recoveryKey.text(), output)
    } catch {
      output?.remove()
      throw error
    }
    lock.hold()
  }

  /// The keybag that is there, whose place is taken; `nil` for one that is damaged. Where it has class keys that the
  /// exported one lacks, that is asked about first.
  private func currentRecord(
    _ file: borrowing KeybagFile, _ exported: borrowing OpenKeybag
  ) throws -> KeybagRecord? {
    guard let bytes = try? file.read(), let found = try? KeybagRecord(parsing: bytes) else { return nil }
    guard found.storeID == exported.keybag.storeID else { throw KeyManagementError.foreignKeybag }
    // One that does not authenticate may say anything.
    guard let current = exported.sibling(bytes)?.record else { return nil }
    let lacking = current.classEntries.filter { entry in
      entry.erasureTime == nil && !exported.keybag.hasKey(of: entry.fileClass, generation: entry.generation)
    }
    if !lacking.isEmpty {
      let letters = Set(lacking.map(\.fileClass.letter)).sorted().joined(separator: ", ")
      try Confirmation.require(
        "The exported keybag is older than keys of class \(letters) that the store's own keybag has: files under them will be "
          + "unreadable, for good.", isGiven: yes)
    }
    return current
  }
}
