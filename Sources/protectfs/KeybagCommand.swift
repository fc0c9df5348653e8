import ArgumentParser
import Cryptography
import KeyManagement
import MountDaemon
import ProtectfsIO
import ProtectfsPolicy
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

  var source: SecretSource { SecretSource(file: file, descriptor: descriptor) }
}

/// `protectfs keybag export`
struct KeybagExportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "export",
    abstract: "Write a keybag that opens a copy of the store on any machine.",
    discussion: """
      Writes the class keys and the device's part of them to a file, under a backup passcode alone. With it, a backing \
      directory that was copied with 'rsync -aX', also while locked, opens elsewhere: see 'protectfs keybag import'. \
      Export again after a rotation or an erasure.

      Example:
        protectfs keybag export --backup private.keybag ~/private
      """)

  @OptionGroup var location: StoreArgument

  @Option(help: ArgumentHelp("The new file.", valueName: "file"), completion: .file())
  var backup: String

  @OptionGroup(title: "Backup passcode options") var backupPasscode: BackupPasscodeOptions

  @OptionGroup var opening: OpeningOptions

  @OptionGroup var deviceKey: DeviceKeyOptions

  func run() throws {
    let store = try StoreReader(try StoreOwner.of(location.path).backing)
    let secret = try opening.read()
    let opened = try store.open(with: secret, deviceKeyFile: deviceKey.file)
    let output = try NewSecretFile(path: backup)
    do {
      let passcode = try backupPasscode.source.readNew("Backup passcode", opening.files)
      try output.write(SecretBytes(opened.exported(for: passcode).bytes))
    } catch {
      output.remove()
      throw error
    }
    print("The keybag was exported to \(backup). The backup passcode opens it, and nothing else does.")
  }
}

/// `protectfs keybag restore`
struct KeybagRestoreCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "restore",
    abstract: "Put the keybag before the last change back in its place.",
    discussion: """
      For a keybag that was damaged, replaced by an old one, or reset by mistake. The keybag in place becomes the \
      previous one, unless it is damaged. After a passcode change, a removed protector, a rotation or an erasure there \
      is none to go back to: that is their purpose.

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
    try file.finishRestoration()
    let bytes = try file.readPrevious()
    let key = try deviceKey.load(for: StoreSummary.parse(bytes).storeID)
    let previous = try Keybag(parsing: bytes, deviceKey: key)
    if let current = try? file.read(), current == previous.bytes {
      throw CommandFailure(.failure, "the keybag before the last change is the same; there is nothing to restore")
    }
    // One whose class keys nobody can unwrap any more is of no use.
    if let time = previous.erasureTime { throw KeyManagementError.storeErased(at: time) }
    let found = try file.authenticKeybags(of: previous.storeID, key)
    _ = try file.effaceableSecret(of: previous)
    try Confirmation.require(
      "The protectors and class keys of \(path.printable) will be those of keybag generation \(previous.generation). What was "
        + "written under keys that it does not have will be unreadable.", isGiven: yes)
    try file.restore(previous, over: found)
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
      For a store whose passcode and recovery key are lost. Needs the device key. Files of class D stay readable; all \
      others stay in their places and answer EKEYREVOKED: 'protectfs orphans' lists and removes them, 'protectfs \
      restore' brings them back from a copy. The old keybag is kept as the previous one: 'protectfs keybag restore' \
      undoes the reset.

      Example:
        protectfs keybag reset ~/.private
      """)

  @Argument(help: ArgumentHelp("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @Flag(help: "Do not ask.")
  var yes = false

  @OptionGroup(title: "New passcode options") var newPasscode: NewPasscodeOptions

  @OptionGroup var files: SecretFileOptions

  @Option(
    help: ArgumentHelp("Write the recovery key to a new file instead of printing it.", valueName: "file"))
  var recoveryKeyFile: String?

  @OptionGroup var deviceKey: DeviceKeyOptions

  func run() throws {
    let path = try CanonicalPath.ofBacking(backing)
    try StoreSummary.requireStore(path)
    let store = try UnmountedStore(path, deviceKeyFile: deviceKey.file)
    try store.requireThatNoOtherOpens()
    try Confirmation.require(
      "All files of classes A, B, C and CX in \(path.printable) will be unreadable, until they are restored from a copy.",
      isGiven: yes)
    let output = try recoveryKeyFile.map { try NewSecretFile(path: $0) }
    do {
      let reset = try store.keybag.resetting(
        passcode: newPasscode.read(files), deviceKey: store.deviceKey,
        effaceable: store.effaceableSecretIfAny())
      try store.file.commit(reset.change)
      store.file.forgetAttempts()
      print(
        "The store has new keys. Until the keybag is next changed, 'protectfs keybag restore' brings back the one before it."
      )
      try RecoveryKeyOutput.show(reset.recoveryKey.text(), output)
    } catch {
      output?.remove()
      throw error
    }
  }
}
