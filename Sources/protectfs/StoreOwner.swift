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
    if let mount = try MountedFileSystem.containing(path) ?? MountPoint.writing(path),
      !MountPoint.isDead(mount.mountPoint)
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

  /// The backing directory.
  var backing: String {
    switch self {
    case .daemon(let mount): mount.backing
    case .nobody(let path): path
    }
  }
}

/// A store that is not mounted, taken by this process, its keybag verified.
struct UnmountedStore: ~Copyable {
  let backing: Descriptor
  let file: KeybagFile
  let keybag: Keybag
  let deviceKey: VolumeDeviceKey
  private let lock: StoreLock

  /// Takes a store to change its keybag with a secret. A recovery key stands for the device key too.
  init(_ path: String, deviceKey options: DeviceKeyOptions, secret: borrowing UnlockSecret) throws {
    try self.init(path) { (bytes, storeID) throws(KeyManagementError) in
      if let key = try secret.recoveredDeviceKey(bytes) { return key }
      return try options.load(for: storeID)
    }
  }

  /// Takes a store to change its keybag without opening it.
  init(_ path: String, deviceKey options: DeviceKeyOptions) throws {
    try self.init(path) { (_, storeID) throws(KeyManagementError) in try options.load(for: storeID) }
  }

  private init(
    _ path: String, _ loadKey: ([UInt8], StoreID) throws(KeyManagementError) -> VolumeDeviceKey
  ) throws {
    let backing = try Store.open(path)
    let lock = try Store.lock(backing, path: path, for: .change)
    let file = try KeybagFile(backing: backing)
    let bytes = try file.read()
    let deviceKey = try loadKey(bytes, try StoreSummary.parse(bytes).storeID)
    keybag = try Keybag(parsing: bytes, deviceKey: deviceKey)
    self.backing = backing
    self.lock = lock
    self.file = file
    self.deviceKey = deviceKey
  }

  /// The effaceable secret; `nil` where it is lost.
  func effaceableSecretIfAny() throws(KeyManagementError) -> EffaceableSecret? {
    do throws(KeyManagementError) {
      return try file.effaceableSecret(of: keybag)
    } catch {
      guard error == .effaceableSecretMissing else { throw error }
    }
    return nil
  }

  /// Finds out that it is not the second copy alone that opens the store.
  func requireThatNoOtherOpens() throws(KeyManagementError) {
    guard !file.opens(keybag), let bytes = try? file.readPrevious(),
      let other = try? Keybag(parsing: bytes, deviceKey: deviceKey), other.storeID == keybag.storeID, file.opens(other)
    else { return }
    throw .effaceableSecretMissing
  }

  /// Changes the keybag, after it has what only the second copy had.
  func change(
    with secret: borrowing UnlockSecret,
    _ make: (borrowing OpenKeybag) throws(KeyManagementError) -> KeybagChange
  ) throws(KeyManagementError) {
    let opened = try open(with: secret)
    guard let first = try file.reuniting(opened) else { return try file.commit(make(opened)) }
    try file.commit(reunion: first)
    try file.commit(make(opened.following(first)))
  }

  /// Opens the keybag.
  func open(with secret: borrowing UnlockSecret) throws(KeyManagementError) -> OpenKeybag {
    try file.open(keybag, with: secret, deviceKey: deviceKey)
  }
}

/// The keybag of a store that anyone may have, to be read.
struct StoreReader: ~Copyable {
  private let file: KeybagFile
  private let bytes: [UInt8]

  /// Finds out that there is a store that this version understands.
  init(_ path: String) throws {
    try StoreSummary.requireStore(path)
    let file = try KeybagFile(backing: Store.open(path))
    bytes = try file.read()
    self.file = file
  }

  /// Opens the keybag. A recovery key stands for the device key too.
  func open(with secret: borrowing UnlockSecret, _ options: DeviceKeyOptions) throws -> OpenKeybag {
    if let deviceKey = try secret.recoveredDeviceKey(bytes) { return try open(with: secret, deviceKey) }
    return try open(with: secret, options.load(for: StoreSummary.parse(bytes).storeID))
  }

  private func open(
    with secret: borrowing UnlockSecret, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> OpenKeybag {
    try file.open(Keybag(parsing: bytes, deviceKey: deviceKey), with: secret, deviceKey: deviceKey)
  }
}
