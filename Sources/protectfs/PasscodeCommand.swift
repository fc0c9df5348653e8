import ArgumentParser
import Cryptography
import DataProtection
import KeyManagement
import LinuxIO
import MountDaemon
import StoreFormat

/// `protectfs passcode`
struct PasscodeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "passcode",
    abstract: "Change the passcode of a store.",
    subcommands: [PasscodeChangeCommand.self])
}

/// `protectfs passcode change`
struct PasscodeChangeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "change",
    abstract: "Change the passcode of a store.",
    discussion: """
      Only the keybag is rewritten, no file is. The recovery key stays as it is, and can stand for a forgotten passcode.

      Examples:
        protectfs passcode change ~/private
        protectfs passcode change --recovery-key ~/.private
        protectfs passcode change --passcode-file old --new-passcode-file new ~/private
      """)

  @Argument(
    help: ArgumentHelp("The directory of ciphertext, or where it is mounted.", valueName: "backing-or-mount-point"),
    completion: .directory)
  var path: String

  @OptionGroup var passcode: PasscodeOptions

  @OptionGroup var recoveryKey: RecoveryKeyOptions

  @Option(
    help: ArgumentHelp("Read the new passcode from a file; '-' is standard input.", valueName: "file"),
    completion: .file())
  var newPasscodeFile: String?

  @Option(
    name: .customLong("new-passcode-fd"),
    help: ArgumentHelp("Read the new passcode from an open file descriptor.", valueName: "number"))
  var newPasscodeDescriptor: Int32?

  @Option(help: ArgumentHelp("Take what a shell command prints as the new passcode.", valueName: "command"))
  var newPasscodeCommand: String?

  @Option(
    name: .customLong("device-key"), help: ArgumentHelp("Use this device key file.", valueName: "file"),
    completion: .file())
  var deviceKeyFile: String?

  func validate() throws {
    if recoveryKey.source != nil && passcode.isGiven {
      throw ValidationError("Give the old passcode or the recovery key, not both.")
    }
    let count = [newPasscodeFile != nil, newPasscodeDescriptor != nil, newPasscodeCommand != nil].count { $0 }
    guard count <= 1 else { throw ValidationError("The new passcode comes from one place only.") }
  }

  func run() throws {
    let path = try CanonicalPath.of(path)
    // A daemon that has the store must be the one to change it, or it would go on taking the old passcode.
    let mount = try MountedFileSystem.containing(path) ?? MountPoint.writing(path)
    if let mount, !MountPoint.isDead(mount.mountPoint) {
      var daemon = try DaemonConnection(to: mount)
      let old = try oldSecret()
      let new = try newSource.readNew("New passcode")
      try unsafe old.withSecret { (old) throws(ControlError) in
        try unsafe new.withBytes { (new) throws(ControlError) in try unsafe daemon.changePasscode(from: old, to: new) }
      }
    } else {
      try changeUnmounted(path)
    }
    print("The passcode was changed. A backup made before still opens with the old one.")
  }

  private func changeUnmounted(_ path: String) throws {
    let backing = try Store.open(path)
    let lock = try Store.lock(backing, path: path, for: .change)
    let file = try KeybagFile(backing: backing)
    let bytes = try file.read()
    let storeID = try StoreSummary.parse(bytes).storeID
    let old = try oldSecret()
    let changed: Keybag
    if old.isRecoveryKey {
      let key = try RecoveryKey(parsing: old.bytes)
      // It opens the store without a device key too.
      let deviceKey = try Keybag.recover(bytes, recoveryKey: key)
      let new = try newSource.readNew("New passcode")
      changed = try Keybag(parsing: bytes, deviceKey: deviceKey)
        .changingPasscode(recoveryKey: key, to: new, deviceKey: deviceKey)
    } else {
      let deviceKey = try DeviceKey.load(for: storeID, file: deviceKeyFile.map { PathName($0) })
      let keybag = try Keybag(parsing: bytes, deviceKey: deviceKey)
      let new = try newSource.readNew("New passcode")
      changed = try keybag.changingPasscode(from: old.bytes, to: new, deviceKey: deviceKey)
    }
    try file.replace(with: changed)
    try file.replacePrevious(with: changed)
    lock.hold()
  }

  private func oldSecret() throws -> TypedSecret { try TypedSecret(recoveryKey, or: passcode, "Old passcode") }

  private var newSource: SecretSource {
    if let newPasscodeFile { return .file(newPasscodeFile) }
    if let newPasscodeDescriptor { return .descriptor(newPasscodeDescriptor) }
    if let newPasscodeCommand { return .command(newPasscodeCommand) }
    return .terminal
  }
}
