import ArgumentParser
import Cryptography
import KeyManagement
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import StoreFormat

/// The argument of commands that find a store by either of its directories.
struct StoreArgument: ParsableArguments {
  @Argument(
    help: ArgumentHelp("The directory of ciphertext, or where it is mounted.", valueName: "backing-or-mount-point"),
    completion: .directory)
  var path: String
}

/// The options of commands that change keys.
struct DeviceKeyOptions: ParsableArguments {
  @Option(
    name: .customLong("device-key"), help: ArgumentHelp("Use this device key file.", valueName: "file"),
    completion: .file())
  var file: String?

  /// The device key of a store.
  func load(for storeID: StoreID) throws(KeyManagementError) -> VolumeDeviceKey {
    try DeviceKey.load(for: storeID, file: file.map { PathName($0) })
  }

  /// Whether the device key of a keybag is at hand: the one given, or that of the default directory.
  func opens(_ keybag: [UInt8], of storeID: StoreID) -> Bool {
    if let file, DeviceKey.opens(keybag, of: storeID, file: PathName(file)) { return true }
    return DeviceKey.opens(keybag, of: storeID)
  }
}

/// Who has a store, and so changes its keys: the daemon that may write it, or this process alone.
enum StoreOwner {
  case daemon(MountedFileSystem)
  /// The path of the backing directory.
  case nobody(String)

  /// Finds out, from the backing directory or where it is mounted.
  static func of(_ path: String) throws -> StoreOwner {
    let path = try CanonicalPath.of(path)
    // A daemon that has the store must be the one to change it, or it would go on with the old keys.
    if let mount = try MountedFileSystem.containing(path) ?? MountedFileSystem.writing(path),
      !mount.isDead
    {
      return .daemon(mount)
    }
    return .nobody(path)
  }

  /// Finds out, where only the store as a whole can be meant.
  ///
  /// - Throws: for a path inside the mount.
  static func ofWhole(_ path: String) throws -> StoreOwner {
    let owner = try of(path)
    let canonical = try CanonicalPath.of(path)
    if let mount = try MountedFileSystem.containing(canonical), mount.mountPoint != canonical {
      throw CommandFailure(
        .usage,
        "\(path.printable) is inside the mount at \(mount.mountPoint.printable), and this is for the whole store: "
          + "give it \(mount.mountPoint.printable), if that is what you want")
    }
    return owner
  }

  /// Changes the store's keybag with a secret: has the daemon do it, or does it here.
  func change(
    with secret: borrowing UnlockSecret, deviceKeyFile: String?, here edit: borrowing KeybagEdit,
    byDaemon ask: (inout DaemonConnection, DaemonConnection.Secret) throws(ControlError) -> Void
  ) throws {
    switch self {
    case .daemon(let mount):
      var daemon = try DaemonConnection(to: mount)
      try unsafe secret.withSecret { (secret) throws(ControlError) in try unsafe ask(&daemon, secret) }
    case .nobody(let path):
      try UnmountedStore(path, deviceKeyFile: deviceKeyFile, secret: secret).apply(edit, with: secret)
    }
  }

  /// The backing directory.
  var backing: String {
    switch self {
    case .daemon(let mount): mount.backing
    case .nobody(let path): path
    }
  }
}

extension StoreReader {
  /// Opens the keybag with what is asked for; a passcode that is typed may be wrong twice.
  func open(asking opening: OpeningOptions, deviceKeyFile: String?) throws -> OpenKeybag {
    var triesLeft = opening.isTypedPasscode ? 3 : 1
    while true {
      let secret = try opening.read()
      triesLeft -= 1
      do {
        return try open(with: secret, deviceKeyFile: deviceKeyFile)
      } catch KeyManagementError.wrongPasscode where triesLeft > 0 {
        CommandFailure.report("\(KeyManagementError.wrongPasscode); try again")
      }
    }
  }
}
