import ArgumentParser
import KeyManagement
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// The argument of commands that find a store by either of its directories.
struct StoreArgument: ParsableArguments {
  @Argument(
    help: .init("The directory of ciphertext, or where it is mounted.", valueName: "backing-or-mount-point"),
    completion: .directory)
  var path: String

  /// Who has the store.
  func owner() throws -> StoreOwner { try StoreOwner(of: CanonicalPath.of(path)) }

  /// Who has the store, which has to be there: nobody should type a passcode to learn that it is not.
  ///
  /// - Parameter asWhole: whether only the store as a whole can be meant, and so not a path inside its mount.
  func ownerOfStore(asWhole: Bool = false) throws -> StoreOwner {
    let canonical = try CanonicalPath.of(path)
    if asWhole, let mount = try MountedFileSystem.containing(canonical), mount.mountPoint != canonical,
      !mount.hasBacking(at: canonical)
    {
      let mountPoint = mount.mountPoint.printable
      throw CommandFailure(
        .usage,
        "\(path.printable) is inside the mount at \(mountPoint), and this is for the whole store: give it "
          + "\(mountPoint), if that is what you want")
    }
    let owner = try StoreOwner(of: canonical)
    try owner.requireStore()
    return owner
  }
}

/// The option for another device key file than the usual one.
struct DeviceKeyOptions: ParsableArguments {
  @Option(
    name: .customLong("device-key"), help: .init("Use this device key file.", valueName: "file"), completion: .file())
  var file: String?
}

/// The options of commands that open a store's keybag, or change it.
struct KeybagOptions: ParsableArguments {
  @OptionGroup var opening: OpeningOptions
  @OptionGroup var deviceKey: DeviceKeyOptions

  /// Opens the keybag of a store, mounted or not.
  func open(_ location: StoreArgument) throws -> OpenKeybag {
    let store = try StoreReader(location.owner().backing)
    return try store.open(with: opening.read(), deviceKeyFile: deviceKey.file)
  }

  /// Finds out, before anything is asked for, that there is a device key for a change; a recovery key stands for it.
  func requireDeviceKey(_ owner: StoreOwner) throws {
    if opening.recoveryKey == nil { try owner.requireDeviceKey(file: deviceKey.file) }
  }

  /// Changes the keybag with what opens it.
  func change(_ owner: StoreOwner, _ edit: borrowing KeybagEdit) throws {
    try owner.change(edit, with: opening.read(), deviceKeyFile: deviceKey.file)
  }
}
