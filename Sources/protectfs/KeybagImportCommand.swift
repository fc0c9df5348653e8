import ArgumentParser
import Cryptography
import KeyManagement
import MountDaemon
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

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

  @Argument(help: ArgumentHelp("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @Option(help: ArgumentHelp("The exported keybag.", valueName: "file"), completion: .file())
  var backup: String

  @Flag(
    help: "Put it in the place of the store's own keybag. Asks first if that would lose class keys.")
  var replace = false

  @Flag(help: "Do not ask.")
  var yes = false

  @OptionGroup(title: "Backup passcode options") var backupPasscode: BackupPasscodeOptions

  @OptionGroup(title: "New passcode options") var newPasscode: NewPasscodeOptions

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
    let passcode = try backupPasscode.source.read("Backup passcode", opening.files)
    let exported = try Keybag.open(exported: bytes, backupPasscode: passcode)
    if replace { return try replaceKeybag(of: path, with: exported, bytes, passcode) }
    try StoreSummary.requireStore(path)
    let secret = try opening.read()
    let store = try UnmountedStore(path, deviceKeyFile: deviceKey.file, secret: secret)
    try store.apply(.takeKeys(exported), with: secret)
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
    let found = try keybags(file, exported)
    let isKeptAsked = try confirmLosses(found, exported.keybag)
    let output = try newRecoveryKeyFile.map { try NewSecretFile(path: $0) }
    do {
      let new = try exported.replacement(over: found, passcode: newPasscode.read(opening.files))
      let kept = try keepDeviceKey(of: bytes, new.keybag.storeID, passcode)
      try file.commit(new.change)
      file.forgetAttempts()
      print("The keybag was imported. \(kept)")
      if isKeptAsked {
        print("Until the keybag is next changed, 'protectfs keybag restore' brings back the one before it.")
      }
      try RecoveryKeyOutput.show(new.recoveryKey.text(), output)
    } catch {
      output?.remove()
      throw error
    }
    lock.hold()
  }

  /// Keeps the device's part of the keys, where no device key is at hand that has it: sealed in the TPM perhaps, it is not to
  /// lie about beside that. Returns what to say.
  private func keepDeviceKey(
    of bytes: [UInt8], _ storeID: StoreID, _ passcode: borrowing SecretBytes
  ) throws(KeyManagementError) -> String {
    if deviceKey.opens(bytes, of: storeID) { return "The device key at hand is the store's." }
    let path = try DeviceKey.keep(Keybag.recover(bytes, backupPasscode: passcode), for: storeID)
    return "The device's part of the keys is kept as \(path)."
  }

  /// The store's keybag and its second copy, if they authenticate. One that does not may say anything.
  private func keybags(
    _ file: borrowing KeybagFile, _ exported: borrowing OpenKeybag
  ) throws(KeyManagementError) -> AuthenticKeybags {
    let found = try file.authenticKeybags(beside: exported)
    guard found.all.isEmpty, let bytes = try? file.read(), let record = try? KeybagRecord(parsing: bytes) else {
      return found
    }
    guard record.storeID == exported.keybag.storeID else { throw .foreignKeybag }
    return found
  }

  /// Asks where the store has class keys that the exported keybag lacks; returns whether it has.
  private func confirmLosses(_ found: AuthenticKeybags, _ exported: Keybag) throws(CommandFailure) -> Bool {
    var lacking: [String] = []
    for keybag in found.all {
      for entry in exported.lacking(keysOf: keybag) {
        let name = "\(entry.fileClass.letter) (key \(entry.id))"
        if !lacking.contains(name) { lacking.append(name) }
      }
    }
    guard !lacking.isEmpty else { return false }
    let advice =
      !found.currentOpens && found.previousOpens
      ? " Try 'protectfs keybag restore' first: the second copy of the keybag opens the store." : ""
    try Confirmation.require(
      "The exported keybag lacks keys that the store's own keybag, or its second copy, has, "
        + "of class \(lacking.joined(separator: ", ")): files under them will be unreadable.\(advice)",
      isGiven: yes)
    return true
  }
}
