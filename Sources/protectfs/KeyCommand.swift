import ArgumentParser
import Cryptography
import KeyManagement
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat

/// `protectfs key`
struct KeyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "key",
    abstract: "List, add, remove and test the protectors of a store.",
    subcommands: [KeyListCommand.self, KeyAddCommand.self, KeyRemoveCommand.self, KeyTestCommand.self])
}

/// `protectfs key list`
struct KeyListCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "list",
    abstract: "List the protectors of a store.",
    discussion: """
      Shows the identity of each protector, of which the first digits are enough, its kind, and its name. No secret is \
      needed.

      Examples:
        protectfs key list ~/private
        protectfs key list --json ~/.private
      """)

  @OptionGroup var location: StoreArgument

  @Flag(help: "Report in JSON.")
  var json = false

  func run() throws {
    let record = try StoreSummary.read(StoreOwner.of(location.path).backing)
    let ways = record.protectors.map { ListedProtector($0) }
    if json { return try JSONOutput.show(ways) }
    for way in ways {
      let detail = way.keyDerivation.map { ", \($0)" } ?? ""
      print("\(way.id.prefix(8))  \(way.kind.padded(to: 13)) \(way.label.printable)\(detail)")
    }
  }
}

/// `protectfs key add`
struct KeyAddCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "add",
    abstract: "Add a protector to a store: a passcode, a recovery key or a key file.",
    discussion: """
      Each protector opens the store by itself, but needs this machine's device key; a recovery key does not.

      Examples:
        protectfs key add --new-passcode --label spouse ~/private
        protectfs key add --new-passcode --tpm ~/private
        protectfs key add --new-key-file /media/stick/private.key ~/private
        protectfs key add --new-recovery-key ~/private
      """)

  @OptionGroup var location: StoreArgument

  @Flag(help: "Add a passcode; implied by the new passcode options.")
  var newPasscode = false

  @OptionGroup(title: "New passcode options") var passcodeSource: NewPasscodeOptions

  @Flag(
    help:
      "Have the machine's TPM take part in the new passcode: it opens the store here only, and the TPM counts guesses.")
  var tpm = false

  @Flag(help: "Add a recovery key, and print it.")
  var newRecoveryKey = false

  @Option(
    help: ArgumentHelp("Add a recovery key, and write it to a new file.", valueName: "file"), completion: .file())
  var newRecoveryKeyFile: String?

  @Option(
    help: ArgumentHelp(
      "Add a key file of 32 to 1024 bytes; it is made, with 32 random bytes, if it does not exist.", valueName: "file"),
    completion: .file())
  var newKeyFile: String?

  @Option(help: ArgumentHelp("The name of the new protector, up to 64 bytes.", valueName: "name"))
  var label: String?

  @OptionGroup var opening: OpeningOptions

  @OptionGroup var deviceKey: DeviceKeyOptions

  private var wantsPasscode: Bool { newPasscode || passcodeSource.isGiven }
  private var wantsRecoveryKey: Bool { newRecoveryKey || newRecoveryKeyFile != nil }

  func validate() throws {
    guard [wantsPasscode, wantsRecoveryKey, newKeyFile != nil].count(where: { $0 }) == 1 else {
      throw ValidationError("Say what to add: --new-passcode, --new-recovery-key or --new-key-file.")
    }
    guard wantsPasscode || !tpm else { throw ValidationError("--tpm goes with --new-passcode.") }
    if let label, label.utf8.count > KeybagRecord.Protector.longestLabel {
      throw ValidationError("A label has at most 64 bytes.")
    }
  }

  func run() throws {
    let owner = try StoreOwner.of(location.path)
    try StoreSummary.requireStore(owner.backing)
    let secret = try opening.read()
    let output = try newRecoveryKeyFile.map { try NewSecretFile(path: $0) }
    do {
      let new = try readNew()
      let name = label ?? new.kind.label
      let edit = KeybagEdit.addProtector(NewProtector(new.copy(), label: name))
      try unsafe owner.change(with: secret, deviceKeyFile: deviceKey.file, here: edit) {
        (daemon, secret) throws(ControlError) in
        try unsafe new.withSecret { (new) throws(ControlError) in
          try unsafe daemon.addKey(new, label: name, with: secret)
        }
      }
      print("The \(new.kind.label) was added.")
      if case .recoveryKey(let text) = new { try RecoveryKeyOutput.show(text, output) }
    } catch {
      output?.remove()
      throw error
    }
  }

  private func readNew() throws -> UnlockSecret {
    if wantsPasscode {
      let passcode = try passcodeSource.read(opening.files)
      return tpm ? .tpmPasscode(passcode) : .passcode(passcode)
    }
    if wantsRecoveryKey { return .recoveryKey(try RecoveryKey().text()) }
    let path = newKeyFile ?? ""
    if (try? Descriptor.open(PathName(path), [.path])) == nil { return .keyFile(try KeyFileSource.create(path)) }
    return .keyFile(try KeyFileSource.file(path).read(opening.files))
  }
}

/// `protectfs key remove`
struct KeyRemoveCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "remove",
    abstract: "Remove a protector from a store.",
    discussion: """
      The last protector cannot be removed. A removed protector opens no keybag that is on this disk, but it opens a \
      backup of the store that was made before.

      Examples:
        protectfs key remove ~/private 1f0a93c2
        protectfs key remove ~/private spouse
      """)

  @OptionGroup var location: StoreArgument

  @Argument(
    help: ArgumentHelp("The protector: its identity, the first digits of that, or its name.", valueName: "protector"))
  var way: String

  @OptionGroup var opening: OpeningOptions

  @OptionGroup var deviceKey: DeviceKeyOptions

  func run() throws {
    let owner = try StoreOwner.of(location.path)
    let id = try ListedProtector.identity(way, in: StoreSummary.read(owner.backing).protectors)
    try unsafe owner.change(with: opening.read(), deviceKeyFile: deviceKey.file, here: .removeProtector(id)) {
      (daemon, secret) throws(ControlError) in
      try unsafe daemon.removeKey(id.hexadecimal, with: secret)
    }
    print("The protector was removed.")
  }
}

/// `protectfs key test`
struct KeyTestCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "test",
    abstract: "Find out whether a secret opens a store, and which protector it is.",
    discussion: """
      Unlocks and changes nothing. A wrong passcode counts as an unlock attempt.

      Examples:
        protectfs key test ~/private
        protectfs key test --recovery-key ~/.private
        protectfs key test --key-file /media/stick/private.key ~/private
      """)

  @OptionGroup var location: StoreArgument

  @OptionGroup var opening: OpeningOptions

  @OptionGroup var deviceKey: DeviceKeyOptions

  func run() throws {
    let store = try StoreReader(try StoreOwner.of(location.path).backing)
    let opened = try store.open(with: opening.read(), deviceKeyFile: deviceKey.file)
    let way = opened.keybag.protectors.first { $0.id == opened.protectorID }.map { ListedProtector($0) }
    print("It opens the store: \(way?.id.prefix(8) ?? "")  \(way?.kind ?? "") '\(way?.label.printable ?? "")'.")
  }
}
