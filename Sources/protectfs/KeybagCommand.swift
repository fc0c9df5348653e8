import ArgumentParser
import Cryptography
import DataProtection
import KeyManagement
import LinuxIO
import MountDaemon
import StoreFormat
import SystemPackage

/// `protectfs keybag`
struct KeybagCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "keybag",
    abstract: "Export, import, restore and reset the keybag of a store.",
    subcommands: [
      KeybagExportCommand.self, KeybagImportCommand.self, KeybagRestoreCommand.self, KeybagResetCommand.self,
    ])
}

/// The passcode of an exported keybag.
struct BackupPasscodeOptions: ParsableArguments {
  @Option(
    name: .customLong("backup-passcode-file"),
    help: ArgumentHelp("Read the backup passcode from a file; '-' is standard input.", valueName: "file"),
    completion: .file())
  var file: String?

  @Option(
    name: .customLong("backup-passcode-fd"),
    help: ArgumentHelp("Read the backup passcode from an open file descriptor.", valueName: "number"))
  var descriptor: Int32?

  var source: SecretSource {
    if let file { return .file(file) }
    return descriptor.map { .descriptor($0) } ?? .terminal
  }
}

/// `protectfs keybag export`
struct KeybagExportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "export",
    abstract: "Write a keybag that opens a copy of the store on any machine.",
    discussion: """
      The file holds the class keys and the device's part, under a backup passcode alone. With it, a backing directory that \
      was copied with 'rsync -aX', also while locked, opens elsewhere: see 'protectfs keybag import'. Make a new one after \
      a rotation or an erasure.

      Example:
        protectfs keybag export --backup private.keybag ~/private
      """)

  @Argument(
    help: ArgumentHelp("The directory of ciphertext, or where it is mounted.", valueName: "backing-or-mount-point"),
    completion: .directory)
  var path: String

  @Option(help: ArgumentHelp("The new file.", valueName: "file"), completion: .file())
  var backup: String

  @OptionGroup var backupPasscode: BackupPasscodeOptions

  @OptionGroup var opening: OpeningOptions

  @OptionGroup var deviceKey: DeviceKeyOptions

  func run() throws {
    let store = try StoreReader(try StoreOwner.of(path).backing)
    let secret = try opening.read()
    let opened = try store.open(with: secret, deviceKey)
    let output = try NewSecretFile(path: backup)
    do {
      let passcode = try backupPasscode.source.readNew("Backup passcode")
      try output.write(SecretBytes(opened.exported(for: passcode).bytes))
    } catch {
      output.remove()
      throw error
    }
    print("The keybag was exported to \(backup). The backup passcode opens it, and nothing else does.")
  }
}

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

/// `protectfs keybag restore`
struct KeybagRestoreCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "restore",
    abstract: "Put the keybag before the last change back in its place.",
    discussion: """
      For a keybag that was damaged, or reset by mistake. After a change of passcode, a removed way in, a rotation or an \
      erasure there is none to go back to: that is their purpose.

      Example:
        protectfs keybag restore ~/.private
      """)

  @Argument(help: ArgumentHelp("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @Flag(help: "Do not ask.")
  var yes = false

  @OptionGroup var deviceKey: DeviceKeyOptions

  func run() throws {
    let path = try CanonicalPath.ofBacking(backing)
    let directory = try Store.open(path)
    let lock = try Store.lock(directory, path: path, for: .change)
    let file = try KeybagFile(backing: directory)
    let bytes = try file.readPrevious()
    let key = try deviceKey.load(for: StoreSummary.parse(bytes).storeID)
    let previous = try Keybag(parsing: bytes, deviceKey: key)
    if let current = try? file.read(), current == previous.bytes {
      throw CommandFailure(.failure, "the keybag before the last change is the same; there is nothing to restore")
    }
    // One whose class keys nobody can unwrap any more is of no use.
    if let time = previous.erasureTime { throw KeyManagementError.storeErased(at: time) }
    _ = try file.effaceableSecret(of: previous)
    try Confirmation.require(
      "Ways in and class keys of \(path.printable) will be those of keybag generation \(previous.generation). What was "
        + "written under newer class keys will be unreadable.", isGiven: yes)
    try file.restore(previous)
    print("The keybag was restored.")
    lock.hold()
  }
}

/// `protectfs keybag reset`
struct KeybagResetCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "reset",
    abstract: "Make new keys where nothing opens the store any more.",
    discussion: """
      For a store whose passcode and recovery key are lost. Needs the device key. Files of class D stay readable; all others \
      stay in their places and answer EKEYREVOKED: 'protectfs orphans' lists and removes them, 'protectfs restore' brings \
      them back from a copy. The old keybag is kept as the previous one: 'protectfs keybag restore' undoes the reset.

      Example:
        protectfs keybag reset ~/.private
      """)

  @Argument(help: ArgumentHelp("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @Flag(help: "Do not ask.")
  var yes = false

  @OptionGroup var newPasscode: NewPasscodeOptions

  @Option(
    help: ArgumentHelp("Write the recovery key to a new file instead of printing it.", valueName: "file"))
  var recoveryKeyFile: String?

  @OptionGroup var deviceKey: DeviceKeyOptions

  func run() throws {
    let path = try CanonicalPath.ofBacking(backing)
    try StoreSummary.requireStore(path)
    let store = try UnmountedStore(path, deviceKey: deviceKey)
    try Confirmation.require(
      "All files of classes A, B, C and CX in \(path.printable) will be unreadable, until they are restored from a copy.",
      isGiven: yes)
    let output = try recoveryKeyFile.map { try NewSecretFile(path: $0) }
    do {
      let reset = try store.keybag.resetting(
        passcode: newPasscode.read(), deviceKey: store.deviceKey, effaceable: store.effaceableSecretIfAny())
      try store.file.commit(reset.change)
      store.file.forgetAttempts()
      print("The store has new keys.")
      try RecoveryKeyOutput.show(reset.recoveryKey.text(), output)
    } catch {
      output?.remove()
      throw error
    }
  }
}
