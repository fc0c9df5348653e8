import ArgumentParser
import KeyManagement

/// `protectfs device-key`
struct DeviceKeyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "device-key",
    abstract: "Seal the device key to the machine's TPM.",
    subcommands: [DeviceKeySealCommand.self])
}

/// `protectfs device-key seal`
struct DeviceKeySealCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "seal",
    abstract: "Seal the device key to the machine's TPM.",
    discussion: """
      Replaces the device key by a file, device.tpm, that only this machine's TPM opens: a copy of the disk then opens \
      neither names nor files of class D, and allows no unlock attempt. Stores are opened as before. The plain file is \
      overwritten and removed. What the disk keeps of it elsewhere is not, nor are files UUID.key beside it, which \
      hold the key of one store in plain, as a mount with a recovery key may have kept them: the command names them. \
      Keep the recovery keys of your stores: they open them when the TPM is gone or cleared.

      Example:
        sudo protectfs device-key seal
      """)

  @OptionGroup var confirmation: Confirmation

  func run() throws {
    try confirmation.require(
      "If this machine's TPM is lost or cleared, only recovery keys open the stores that were made here.")
    let (sealed, plainCopies) = try DeviceKey.seal()
    print("The device key is sealed in \(sealed).")
    for path in plainCopies {
      CommandFailure.report(
        "\(path) is the key of one store in plain: with it no TPM is needed for that store; remove it if you can do "
          + "without")
    }
  }
}
