import ArgumentParser
import Cryptography
import KeyManagement
import MountDaemon

/// `protectfs keybag`
struct KeybagCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "keybag",
    abstract: "Export, import, restore and reset the keybag of a store.",
    subcommands: [
      KeybagExportCommand.self, KeybagImportCommand.self, KeybagRestoreCommand.self, KeybagResetCommand.self,
    ])
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

  @Option(help: .init("The new file.", valueName: "file"), completion: .file())
  var backup: String

  @OptionGroup(title: "Backup passcode options") var backupPasscode: PasscodeOptions<BackupPasscode>
  @OptionGroup(title: "Backup passcode options") var new: NewPasscodeOptions
  @OptionGroup var options: KeybagOptions

  func run() throws {
    let opened = try options.open(location)
    let output = try NewSecretFile(path: backup)
    let passcode = try backupPasscode.source.readNew("Backup passcode", options.opening.files, new, .nothing)
    try output.write(SecretBytes(opened.exported(for: passcode).bytes))
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

  @Argument(help: .init("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @OptionGroup var confirmation: Confirmation
  @OptionGroup var deviceKey: DeviceKeyOptions

  func run() throws {
    let path = try CanonicalPath.ofBacking(backing)
    guard let restoration = try KeybagRestoration(path, deviceKeyFile: deviceKey.file) else {
      throw CommandFailure(.failure, "the keybag before the last change is the same; there is nothing to restore")
    }
    try confirmation.require(
      "The protectors and class keys of \(path.printable) will be those of keybag generation "
        + "\(restoration.previous.generation). What was written under keys that it does not have will be unreadable.")
    try restoration.commit()
    print("The keybag was restored.")
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

  @Argument(help: .init("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @OptionGroup var confirmation: Confirmation
  @OptionGroup(title: "New passcode options") var newPasscode: PasscodeOptions<NewPasscode>
  @OptionGroup(title: "New passcode options") var new: NewPasscodeOptions
  @OptionGroup var files: SecretFileOptions

  @Option(help: .init("Write the recovery key to a new file instead of printing it.", valueName: "file"))
  var recoveryKeyFile: String?

  @OptionGroup var deviceKey: DeviceKeyOptions

  func run() throws {
    let path = try CanonicalPath.ofBacking(backing)
    try StoreSummary.requireStore(path)
    let output: NewSecretFile?
    let recoveryKey: RecoveryKeyText
    do {
      // Not taken any more when the key is shown: a store that is lost ends the process.
      let store = try UnmountedStore(path, deviceKeyFile: deviceKey.file)
      try store.requireThatNoOtherOpens()
      try confirmation.require(
        "All files of classes A, B, C and CX in \(path.printable) will be unreadable, until they are restored from a copy."
      )
      output = try recoveryKeyFile.map { try NewSecretFile(path: $0) }
      recoveryKey = try store.reset(passcode: newPasscode.source.readNew("New passcode", files, new))
    }
    print(
      "The store has new keys. Until the keybag is next changed, 'protectfs keybag restore' brings back the one before it."
    )
    try RecoveryKeyOutput.show(recoveryKey.text, output)
  }
}
