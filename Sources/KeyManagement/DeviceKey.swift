import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage

/// The files outside the backing directory that bind a store to a device.
///
/// `device.key` holds the device's key, 32 random bytes, from which each store's is derived. In its place may be
/// `device.tpm`, the same key sealed to the machine's TPM, so that a copy of the disk does not have it. `UUID.key`
/// holds the volume device key of one store as it is, got back with a recovery key, and is looked for first.
package enum DeviceKey {
  private static let fileName = "device.key"
  private static let sealedName = "device.tpm"

  /// `/etc/protectfs` for root; for others `$XDG_CONFIG_HOME/protectfs`, by default `~/.config/protectfs`.
  package static func defaultDirectory() -> PathName {
    if Process.identity.user == 0 { return "/etc/protectfs" }
    if let directory = environment("XDG_CONFIG_HOME") { return PathName(directory + "/protectfs") }
    return PathName(Process.homeDirectory + "/.config/protectfs")
  }

  /// The volume device key of the store that a keybag is of, with what this machine has as one of its hosts.
  ///
  /// - Parameter file: a device key file; one that ends in `.host` is a host's. `nil`: those of the default directory.
  /// - Throws: as ``load(for:file:)-(StoreID,_)``; `hostUnknown` where the keybag has nothing for this host.
  package static func load(
    for keybag: KeybagRecord, file: PathName? = nil
  ) throws(KeyManagementError) -> VolumeDeviceKey {
    guard let host = try HostKey.find(for: keybag.storeID, file: file) else {
      return try load(for: keybag.storeID, file: file)
    }
    do throws(KeyManagementError) {
      return try host.volumeDeviceKey(in: keybag)
    } catch {
      // The store's own device key may be here too: it was recovered, or this machine asked its own store.
      guard error == .hostUnknown, file == nil, let key = try? load(for: keybag.storeID),
        (try? Keybag(keybag, deviceKey: key)) != nil
      else { throw error }
      return key
    }
  }

  /// The volume device key of a store.
  ///
  /// - Parameter file: a device key file, or one named `UUID.key` for this store, or one that ends in `.tpm`. `nil`:
  ///   those of the default directory.
  /// - Throws: `deviceKeyMissing`, `deviceKeyUnreadable`, `deviceKeyExposed`, `deviceKeyMalformed`,
  ///   `trustedPlatformModule`.
  package static func load(for storeID: StoreID, file: PathName? = nil) throws(KeyManagementError) -> VolumeDeviceKey {
    if let file {
      let name = Array(file.bytes).split(separator: UInt8(ascii: "/")).last.map(Array.init) ?? []
      if name.reversed().starts(with: ".tpm".utf8.reversed()) {
        return try volumeKey(unseal(file), isDerived: false, storeID)
      }
      return try volumeKey(read(file), isDerived: name == Array("\(storeID).key".utf8), storeID)
    }
    let directory = defaultDirectory()
    do throws(KeyManagementError) {
      return try volumeKey(read(path("\(storeID).key", in: directory)), isDerived: true, storeID)
    } catch {
      guard case .deviceKeyMissing = error else { throw error }
    }
    let sealed = path(sealedName, in: directory)
    if (try? Descriptor.open(sealed, [.path])) != nil {
      return try volumeKey(unseal(sealed), isDerived: false, storeID)
    }
    return try volumeKey(read(path(fileName, in: directory)), isDerived: false, storeID)
  }

  /// Whether that device key is the one of a keybag.
  package static func opens(_ keybag: [UInt8], of storeID: StoreID, file: PathName? = nil) -> Bool {
    guard let record = try? KeybagRecord(parsing: keybag), record.storeID == storeID,
      let key = try? load(for: record, file: file)
    else { return false }
    return (try? Keybag(parsing: keybag, deviceKey: key)) != nil
  }

  /// The volume device key of a new store; makes the device key when there is none yet.
  package static func loadOrCreate(
    for storeID: StoreID, file: PathName? = nil
  ) throws(KeyManagementError) -> VolumeDeviceKey {
    do throws(KeyManagementError) {
      return try load(for: storeID, file: file)
    } catch .deviceKeyMissing {
      let path = file ?? path(fileName, in: defaultDirectory())
      let key = try KeyManagementError.wrapping { () throws(CryptographyError) in
        try SecretBytes(randomCount: VolumeDeviceKey.size)
      }
      do throws(KeyManagementError) {
        try write(key, to: path)
      } catch .deviceKeyUnreadable(_, .fileExists) {
        // Somebody else made one just now; it is as good.
      }
      return try load(for: storeID, file: file)
    }
  }

  /// Keeps a store's volume device key as `UUID.key`; returns where.
  @discardableResult
  package static func keep(
    _ key: borrowing VolumeDeviceKey, for storeID: StoreID, in directory: PathName = defaultDirectory()
  ) throws(KeyManagementError) -> PathName {
    let path = path("\(storeID).key", in: directory)
    do throws(KeyManagementError) {
      try write(key.secret, to: path)
    } catch .deviceKeyUnreadable(_, .fileExists) {
      let kept = try read(path)
      guard kept == key.secret else { throw .deviceKeyUnreadable(path: path.description, .fileExists) }
    }
    return path
  }

  private static func environment(_ name: String) -> String? {
    // A relative path is to be ignored (XDG Base Directory Specification).
    Process.environment(name).flatMap { $0.hasPrefix("/") ? $0 : nil }
  }

  static func path(_ name: String, in directory: PathName) -> PathName {
    PathName(bytes: Array(directory.bytes) + Array("/\(name)".utf8))
  }

  private static func volumeKey(
    _ secret: consuming SecretBytes, isDerived: Bool, _ storeID: StoreID
  ) throws(KeyManagementError) -> VolumeDeviceKey {
    do throws(CryptographyError) {
      return isDerived ? try VolumeDeviceKey(secret) : try VolumeDeviceKey(deviceKey: secret, storeID: storeID)
    } catch {
      throw KeyManagementError(error)
    }
  }
}

// The files. A key that others could have read, or could have put there, is refused as ssh(1) refuses it.
extension DeviceKey {
  static func read(_ path: PathName) throws(KeyManagementError) -> SecretBytes {
    let file = try open(path)
    // One byte more than there may be, to find out whether there is more.
    var secret = SecretBytes(count: VolumeDeviceKey.size + 1)
    let count = try reporting(path) { () throws(Errno) in
      try unsafe secret.withMutableBytes { (buffer) throws(Errno) in try unsafe file.read(into: buffer, at: 0) }
    }
    guard count == VolumeDeviceKey.size else { throw .deviceKeyMalformed(path: path.description) }
    return secret.prefix(count)
  }

  /// Opens a device key's file, plain or sealed. A sealed one tells nobody anything, but who can put one there could
  /// choose the key of a store that is made with it: any user may seal to the TPM.
  static func open(_ path: PathName) throws(KeyManagementError) -> Descriptor {
    let file = try reporting(path) { () throws(Errno) in try Descriptor.open(path, [.readOnly, .nonBlocking]) }
    let status = try reporting(path) { () throws(Errno) in try file.status() }
    guard status.type == .regular else { throw .deviceKeyMalformed(path: path.description) }
    guard status.permissions & 0o077 == 0, status.user == Process.identity.user || status.user == 0 else {
      throw .deviceKeyExposed(path: path.description)
    }
    return file
  }

  static func reporting<Result: ~Copyable>(
    _ path: PathName, _ body: () throws(Errno) -> Result
  ) throws(KeyManagementError) -> Result {
    do throws(Errno) {
      return try body()
    } catch .noSuchFileOrDirectory {
      throw .deviceKeyMissing(path: path.description)
    } catch {
      throw .deviceKeyUnreadable(path: path.description, error)
    }
  }

  /// Writes a key file, which by default must not be there yet, and the directories above it that are missing.
  static func write(
    _ key: borrowing SecretBytes, to path: PathName, mayReplace: Bool = false
  ) throws(KeyManagementError) {
    do throws(Errno) {
      let parts = Array(path.bytes).split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: true)
      guard let name = parts.last else { throw Errno.invalidArgument }
      let isAbsolute = path.bytes.first == UInt8(ascii: "/")
      // Directories above may be such as can be searched, and not read.
      var directory = try Descriptor.open(isAbsolute ? "/" : ".", [.path, .directory])
      for part in parts.dropLast() { directory = try Self.directory(PathName(bytes: part), in: directory) }
      directory = try directory.open(".", [.readOnly, .directory])
      var file = try AtomicFile(replacing: PathName(bytes: name), in: directory)
      try unsafe key.withBytes { (bytes) throws(Errno) in try unsafe file.commit(bytes, mayReplace: mayReplace) }
    } catch {
      throw .deviceKeyUnreadable(path: path.description, error)
    }
  }

  /// Opens a directory, and makes it durably if it is missing. Another process may make it at the same time.
  private static func directory(_ name: PathName, in parent: borrowing Descriptor) throws(Errno) -> Descriptor {
    do throws(Errno) { return try parent.open(name, [.path, .directory]) } catch {
      guard error == .noSuchFileOrDirectory else { throw error }
    }
    do throws(Errno) { try parent.makeDirectory(name, mode: 0o700) } catch {
      guard error == .fileExists else { throw error }
    }
    let directory = try parent.open(name, [.path, .directory])
    do throws(Errno) {
      try parent.open(".", [.readOnly, .directory]).synchronize()
    } catch .permissionDenied {
      try directory.open(".", [.readOnly, .directory]).synchronizeFileSystem()
    }
    return directory
  }
}
