import ArgumentParser
import Cryptography
import FoundationEssentials
import KeyManagement
import MountDaemon
import ProtectfsIO
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
    let ways = try StoreSummary.read(location.owner().backing).protectors.map { ProtectorInformation($0) }
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

  @OptionGroup(title: "New passcode options") var passcodeSource: PasscodeOptions<NewPasscode>
  @OptionGroup(title: "New passcode options") var new: NewPasscodeOptions

  @Flag(
    help:
      "Have the machine's TPM take part in the new passcode: it opens the store here only, and the TPM counts guesses.")
  var tpm = false

  @Flag(help: "Add a recovery key, and print it.")
  var newRecoveryKey = false

  @Option(help: .init("Add a recovery key, and write it to a new file.", valueName: "file"), completion: .file())
  var newRecoveryKeyFile: String?

  @Option(
    help: .init(
      "Add a key file of 32 to 1024 bytes; it is made, with 32 random bytes, if it does not exist.", valueName: "file"),
    completion: .file())
  var newKeyFile: String?

  @Option(help: .init("The name of the new protector, up to 64 bytes.", valueName: "name"))
  var label: String?

  @OptionGroup var options: KeybagOptions

  private var wantsPasscode: Bool { newPasscode || passcodeSource.given != nil }
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
    let owner = try location.ownerOfStore()
    try options.requireDeviceKey(owner)
    let secret = try options.opening.read()
    let output = try newRecoveryKeyFile.map { try NewSecretFile(path: $0) }
    let new = try readNew()
    let protector = NewProtector(new.copy(), label: label ?? defaultLabel(of: new.kind))
    try owner.change(.addProtector(protector), with: secret, deviceKeyFile: options.deviceKey.file)
    print("The \(new.kind.label) was added.")
    if case .recoveryKey(let text) = new { try RecoveryKeyOutput.show(text, output) }
  }

  /// What tells it from others of its kind.
  private func defaultLabel(of kind: UnlockSecret.Kind) -> String {
    var name = newKeyFile.map { PathName($0).parted.name.description } ?? kind.label
    let date = Date.now.formatted(.iso8601.year().month().day())
    while name.utf8.count + 1 + date.utf8.count > KeybagRecord.Protector.longestLabel { name.removeLast() }
    return "\(name) \(date)"
  }

  private func readNew() throws -> UnlockSecret {
    if wantsPasscode {
      let passcode = try passcodeSource.source.readNew(
        "New passcode", options.opening.files, new, tpm ? .tpm : .deviceKey)
      return tpm ? .tpmPasscode(passcode) : .passcode(passcode)
    }
    if wantsRecoveryKey { return .recoveryKey(try RecoveryKey().text()) }
    let path = newKeyFile ?? ""
    guard !PathName(path).isThere else {
      return .keyFile(try SecretSource.file(path).readKeyFile(options.opening.files))
    }
    let content = try SecretBytes(randomCount: KeyFile.lengths.lowerBound)
    try NewSecretFile(path: path).write(content)
    return .keyFile(content)
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
    help: .init(
      "The protector: its identity, the first digits of that, its name, or its kind if it is the only one.",
      valueName: "protector"))
  var way: String

  @OptionGroup var options: KeybagOptions

  func run() throws {
    if PathName(way).isThere, !PathName(location.path).isThere {
      let words = [way, location.path].map(\.shellQuoted)
      throw CommandFailure(
        .usage, "the store comes first, then the protector: protectfs key remove \(words[0]) \(words[1])")
    }
    let owner = try location.owner()
    // A host's classes need new keys too, which 'host remove' gives them.
    let protectors = try StoreSummary.read(owner.backing).protectors.filter { $0.method.host == nil }
    try options.change(owner, .removeProtector(identity(in: protectors)))
    print("The protector was removed.")
  }

  /// The identity of the protector that is meant: by its first digits, its name, or its kind.
  private func identity(in protectors: [KeybagRecord.Protector]) throws(CommandFailure) -> [UInt8] {
    let name = ItemName(text: way)
    let named = protectors.filter { name.means($0.id, $0.label) }
    let found = named.isEmpty ? protectors.filter { ProtectorInformation($0).kind == way } : named
    return try name.one(of: found, "protector", shownBy: "key list").id
  }
}

/// `protectfs key test`
struct KeyTestCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "test",
    abstract: "Find out whether a secret opens a store, and which protector it is.",
    discussion: """
      Unlocks and changes nothing. A wrong passcode counts as an unlock attempt. When a recovery key was last tested, \
      'protectfs doctor' says.

      Examples:
        protectfs key test ~/private
        protectfs key test --recovery-key ~/.private
        protectfs key test --key-file /media/stick/private.key ~/private
      """)

  @OptionGroup var location: StoreArgument
  @OptionGroup var options: KeybagOptions

  func run() throws {
    let opened = try options.open(location)
    let way = opened.keybag.protectors.first { $0.id == opened.protectorID }.map { ProtectorInformation($0) }
    print("It opens the store: \(way?.id.prefix(8) ?? "")  \(way?.kind ?? "") '\(way?.label.printable ?? "")'.")
    guard options.opening.recoveryKey != nil else { return }
    do { try RecoveryKeyTest.note(opened.protectorID) } catch {
      let reason = CommandFailure(error)?.message ?? "\(error)"
      CommandFailure.report("that it was tested is not noted for 'protectfs doctor': \(reason)")
    }
  }
}
