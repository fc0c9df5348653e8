import ArgumentParser
import Cryptography
import KeyManagement
import MountDaemon
import ProtectfsClient

/// `protectfs passcode`
struct PasscodeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "passcode",
    abstract: "Change the passcode of a store.",
    subcommands: [PasscodeChangeCommand.self])
}

/// The options that say where a new passcode comes from.
struct NewPasscodeOptions: ParsableArguments {
  @Option(
    name: .customLong("new-passcode-file"),
    help: ArgumentHelp("Read the new passcode from a file; '-' is standard input.", valueName: "file"),
    completion: .file())
  var file: String?

  @Option(
    name: .customLong("new-passcode-fd"),
    help: ArgumentHelp("Read the new passcode from an open file descriptor.", valueName: "number"))
  var descriptor: Int32?

  @Option(
    name: .customLong("new-passcode-command"),
    help: ArgumentHelp("Take what a shell command prints as the new passcode.", valueName: "command"))
  var command: String?

  /// Whether one of the options was given.
  var isGiven: Bool { file != nil || descriptor != nil || command != nil }

  func validate() throws {
    let count = [file != nil, descriptor != nil, command != nil].count { $0 }
    guard count <= 1 else { throw ValidationError("The new passcode comes from one place only.") }
  }

  /// Reads it, from a terminal twice.
  func read(_ files: SecretFileOptions) throws -> SecretBytes {
    try SecretSource(file: file, descriptor: descriptor, command: command).readNew("New passcode", files)
  }
}

/// `protectfs passcode change`
struct PasscodeChangeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "change",
    abstract: "Change the passcode of a store.",
    discussion: """
      Rewrites the keybag alone, no file. Recovery keys and key files stay valid, and stand for a forgotten passcode: \
      with one of them the only passcode is replaced. Where the store has several passcodes, use 'protectfs key add' \
      and 'protectfs key remove' instead.

      Examples:
        protectfs passcode change ~/private
        protectfs passcode change --recovery-key ~/.private
        protectfs passcode change --passcode-file old --new-passcode-file new ~/private
      """)

  @OptionGroup var location: StoreArgument

  @OptionGroup var opening: OpeningOptions

  @OptionGroup(title: "New passcode options") var newPasscode: NewPasscodeOptions

  @OptionGroup var deviceKey: DeviceKeyOptions

  func run() throws {
    switch try StoreOwner.of(location.path) {
    case .daemon(let mount):
      var daemon = try DaemonConnection(to: mount)
      let old = try opening.read("Old passcode")
      let new = try newPasscode.read(opening.files)
      try unsafe old.withSecret { (old) throws(ControlError) in
        try unsafe new.withBytes { (new) throws(ControlError) in try unsafe daemon.changePasscode(from: old, to: new) }
      }
    case .nobody(let path):
      try StoreSummary.requireStore(path)
      let old = try opening.read("Old passcode")
      let store = try UnmountedStore(path, deviceKeyFile: deviceKey.file, secret: old)
      let new = try newPasscode.read(opening.files)
      try store.apply(.changePasscode(new), with: old)
    }
    print("The passcode was changed. A backup made before still opens with the old one.")
  }
}
