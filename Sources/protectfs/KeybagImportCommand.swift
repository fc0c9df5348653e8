import ArgumentParser
import Cryptography
import KeyManagement
import MountDaemon
import ProtectfsIO
import StoreFormat

/// `protectfs keybag import`
struct KeybagImportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "import",
    abstract: "Take the keys of an exported keybag into a store.",
    discussion: """
      On the machine that made the store, and with a protector of the store: adds class keys that were reset or \
      erased, so that files under them open again. With --replace, on another machine or when nothing opens the store \
      any more: the exported keybag takes the place of the store's own. The command asks for a new passcode, prints a \
      new recovery key, and keeps the device's part of the keys as UUID.key beside the device key, where no device key \
      at hand opens the store. Try 'protectfs keybag restore' first.

      Examples:
        protectfs keybag import --backup private.keybag ~/.private
        protectfs keybag import --replace --backup private.keybag /srv/copy
      """)

  @Argument(help: .init("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @Option(help: .init("The exported keybag.", valueName: "file"), completion: .file())
  var backup: String

  @Flag(help: "Put it in the place of the store's own keybag. Asks first if that would lose class keys.")
  var replace = false

  @OptionGroup var confirmation: Confirmation
  @OptionGroup(title: "Backup passcode options") var backupPasscode: PasscodeOptions<BackupPasscode>
  @OptionGroup(title: "New passcode options") var newPasscode: PasscodeOptions<NewPasscode>
  @OptionGroup(title: "New passcode options") var new: NewPasscodeOptions

  @Option(
    help: .init("With --replace, write the recovery key to a new file instead of printing it.", valueName: "file"))
  var newRecoveryKeyFile: String?

  @OptionGroup var options: KeybagOptions

  func validate() throws {
    guard replace || (newPasscode.given == nil && newRecoveryKeyFile == nil) else {
      throw ValidationError("A new passcode and a new recovery key come with --replace only.")
    }
  }

  func run() throws {
    let path = try CanonicalPath.ofBacking(backing)
    let bytes = try naming(backup) {
      try Descriptor.open(PathName(backup), [.readOnly]).readAll(limit: KeybagRecord.longest + 1)
    }
    let passcode = try backupPasscode.source.read("Backup passcode", options.opening.files)
    let exported = try Keybag.open(exported: bytes, backupPasscode: passcode)
    if replace { return try replaceKeybag(of: path, with: exported, bytes, passcode) }
    try StoreSummary.requireStore(path)
    try options.change(.nobody(path), .takeKeys(exported))
    print("The keys were imported.")
  }

  private func replaceKeybag(
    of path: String, with exported: consuming OpenKeybag, _ bytes: [UInt8], _ backupPasscode: borrowing SecretBytes
  ) throws {
    let lost: [String]
    let output: NewSecretFile?
    let (recoveryKey, kept): (RecoveryKeyText, PathName?)
    do {
      // Not taken any more when the key is shown: a store that is lost ends the process.
      let replacement = try KeybagImport(exported, into: path)
      lost = replacement.lost
      if !lost.isEmpty {
        let advice =
          replacement.isRestorationBetter
          ? " Try 'protectfs keybag restore' first: the second copy of the keybag opens the store." : ""
        try confirmation.require(
          "The exported keybag lacks keys that the store's own keybag, or its second copy, has, "
            + "of class \(lost.joined(separator: ", ")): files under them will be unreadable.\(advice)")
      }
      output = try newRecoveryKeyFile.map { try NewSecretFile(path: $0) }
      let passcode = try newPasscode.source.readNew("New passcode", options.opening.files, new)
      (recoveryKey, kept) = try replacement.commit(
        passcode: passcode, bytes, backupPasscode: backupPasscode, deviceKeyFile: options.deviceKey.file)
    }
    let keptWords = kept.map { "The device's part of the keys is kept as \($0)." }
    print("The keybag was imported. \(keptWords ?? "The device key at hand is the store's.")")
    if !lost.isEmpty {
      print("Until the keybag is next changed, 'protectfs keybag restore' brings back the one before it.")
    }
    try RecoveryKeyOutput.show(recoveryKey.text, output)
    if kept != nil { DeviceKeyPlace.warn(of: path) }
  }
}
