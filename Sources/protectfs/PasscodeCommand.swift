import ArgumentParser
import KeyManagement
import MountDaemon

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
      Rewrites the keybag alone, no file. Recovery keys and key files stay valid, and stand for a forgotten passcode: \
      with one of them the only passcode is replaced. Where the store has several passcodes, use 'protectfs key add' \
      and 'protectfs key remove' instead. On a host of the store, changes the host's own passcode, and not the keybag.

      Examples:
        protectfs passcode change ~/private
        protectfs passcode change --recovery-key ~/.private
        protectfs passcode change --passcode-file old --new-passcode-file new ~/private
      """)

  @OptionGroup var location: StoreArgument
  @OptionGroup var options: KeybagOptions
  @OptionGroup(title: "New passcode options") var newPasscode: PasscodeOptions<NewPasscode>
  @OptionGroup(title: "New passcode options") var new: NewPasscodeOptions

  func run() throws {
    let owner = try location.ownerOfStore()
    try options.requireDeviceKey(owner)
    let old = try options.opening.read("Old passcode")
    let (bytes, record) = try StoreSummary.readKeybag(owner.backing)
    let file = options.deviceKey.file
    let isHost = (try? DeviceKey.load(forKeybag: bytes, file: file).isOfHost) == true
    // With a TPM in the passcode that is replaced, the new one has it too.
    let kinds = record.protectors.map { ProtectorInformation($0).kind }
    let hasPasscode = isHost || kinds.contains(UnlockSecret.Kind.passcode.label)
    let limit = hasPasscode ? PasscodeStrength.Limit.deviceKey : .tpm
    let new = try newPasscode.source.readNew("New passcode", options.opening.files, self.new, limit)
    if isHost {
      try StoreReader(owner.backing).open(with: old, deviceKeyFile: file).changeHostPasscode(to: new)
      return print("The passcode of this host was changed.")
    }
    try owner.change(.changePasscode(new), with: old, deviceKeyFile: file)
    print("The passcode was changed. A backup made before still opens with the old one.")
  }
}
