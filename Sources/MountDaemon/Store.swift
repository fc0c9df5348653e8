import Cryptography
import DataProtectionCore
import FileSystem
import Glibc
import KeyManagement
import LinuxIO
import StoreFormat
import SystemPackage

/// A store in a backing directory: how one is made, and the lock by which one daemon has it.
package enum Store {
  /// Makes a store in an empty directory, and returns its recovery key. A crash on the way leaves a directory in which it
  /// can be made again: the keybag comes last.
  ///
  /// - Parameter cost: of trying a passcode; `nil` for one that takes long enough on this machine.
  /// - Throws: `StoreError` where no store can be, `KeyManagementError` for what concerns keys.
  package static func create(
    in path: String, defaultClass: ProtectionClass, passcode: borrowing SecretBytes, eraseAfter: UInt8?,
    deviceKeyFile: String?, cost: ScryptParameters? = nil
  ) throws -> (storeID: StoreID, recoveryKey: RecoveryKeyText) {
    let backing = try open(path)
    // Of two that make a store here at once, one comes too late.
    do throws(Errno) { try backing.lock(isShared: false) } catch {
      throw error == .wouldBlock ? StoreError.inUse(path: path) : .backingUnreadable(path: path, error)
    }
    try requireRoomForStore(backing, path)
    let storeID = try StoreID.random()
    let deviceKey = try DeviceKey.loadOrCreate(for: storeID, file: deviceKeyFile.map { PathName($0) })
    let new = try Keybag.create(
      defaultClass: defaultClass, passcode: passcode, deviceKey: deviceKey, storeID: storeID, eraseAfter: eraseAfter,
      cost: cost)
    try KeybagFile.makeDirectory(in: backing)
    try ProtectedFileSystem.writeRootRecord(
      to: backing, defaultClass: defaultClass, volume: VolumeKeys(deviceKey, storeID: storeID))
    try backing.synchronize()
    let file = try KeybagFile(backing: backing)
    try file.create(new.keybag, new.effaceable)
    file.reserveAttempts()
    return (storeID, RecoveryKeyText(try new.recoveryKey.text()))
  }

  /// Opens a backing directory.
  package static func open(_ path: String) throws(StoreError) -> Descriptor {
    do throws(Errno) {
      return try Descriptor.open(PathName(path), [.readOnly, .directory])
    } catch {
      throw .backingUnreadable(path: path, error)
    }
  }

  /// What a store is taken for, and so who may have it at the same time.
  package enum Use: Sendable {
    /// One at a time writes, beside any number of mounts that only read.
    case mount(isReadOnly: Bool)
    /// Nobody writes meanwhile.
    case check
    /// Nobody has it meanwhile.
    case repair
    /// A change of the keybag: as one that writes.
    case change
  }

  /// Takes the store: locks on its two directories, which end with the process whatever becomes of it (flock(2)). The
  /// store's own directory is for those who write, the backing directory for all who mount.
  ///
  /// One that nobody has mounted is waited for, up to five seconds: a daemon whose mount is gone goes soon, and so does a
  /// change of the passcode.
  ///
  /// - Throws: `inUse` when someone has it who leaves no room for this use.
  package static func lock(
    _ backing: borrowing Descriptor, path: String, for use: Use
  ) throws(StoreError) -> StoreLock {
    let deadline = ContinuousClock.now + .seconds(5)
    while true {
      do throws(StoreError) {
        return try take(backing, path: path, for: use)
      } catch .inUse {
        if isMounted(backing) || ContinuousClock.now > deadline { throw .inUse(path: path) }
        usleep(10_000)
      }
    }
  }

  private static func isMounted(_ backing: borrowing Descriptor) -> Bool {
    guard let own = try? backing.status() else { return false }
    return MountedFileSystem.all().contains { mount in
      guard let other = try? Descriptor.open(PathName(mount.backing), [.path]).status() else { return false }
      return other.device == own.device && other.inode == own.inode
    }
  }

  private static func take(
    _ backing: borrowing Descriptor, path: String, for use: Use
  ) throws(StoreError) -> StoreLock {
    do throws(Errno) {
      let (writing, presence): (Bool?, Bool?) =
        switch use {
        case .mount(isReadOnly: true): (nil, true)
        case .mount(isReadOnly: false): (false, true)
        case .check: (true, nil)
        case .repair: (false, false)
        case .change: (false, nil)
        }
      let store = try backing.open(PathName(NameEncoding.storeDirectory), [.readOnly, .directory, .noFollow])
      if let isShared = writing { try store.lock(isShared: isShared) }
      let root = try backing.open(".", [.readOnly, .directory])
      if let isShared = presence { try root.lock(isShared: isShared) }
      return StoreLock(store: store, root: root)
    } catch {
      switch error {
      case .noSuchFileOrDirectory: throw .noStore(path: path)
      case .wouldBlock: throw .inUse(path: path)
      default: throw .backingUnreadable(path: path, error)
      }
    }
  }

  /// Finds out whether a store that was copied here has its records.
  package static func requireAttributes(_ backing: borrowing Descriptor, path: String) throws(StoreError) {
    do throws(Errno) {
      _ = try backing.attribute(PathName(DirectoryRecord.attributeName))
    } catch .noData {
      // They are known here; that one is missing is the file system's to say.
    } catch {
      throw error == .notSupportedOnSocket
        ? .noExtendedAttributes(path: path) : .backingUnreadable(path: path, error)
    }
  }

  private static func requireRoomForStore(_ backing: borrowing Descriptor, _ path: String) throws(StoreError) {
    do throws(Errno) {
      let stream = DirectoryNames(try backing.open(".", [.readOnly, .directory]))
      let names = try stream.all(limit: 4)
      if names.contains(PathName(NameEncoding.storeDirectory)) {
        let store = try backing.open(PathName(NameEncoding.storeDirectory), [.readOnly, .directory, .noFollow])
        if try DirectoryNames(store).all(limit: 100).contains("keybag") { throw Errno.fileExists }
      }
      guard names.allSatisfy({ $0 == PathName(NameEncoding.storeDirectory) }) else { throw Errno.directoryNotEmpty }
      try backing.setAttribute("user.protectfs.probe", to: [1])
      try backing.removeAttribute("user.protectfs.probe")
    } catch {
      switch error {
      case .fileExists: throw .alreadyAStore(path: path)
      case .directoryNotEmpty: throw .notEmpty(path: path)
      case .notSupportedOnSocket: throw .noExtendedAttributes(path: path)
      default: throw .backingUnreadable(path: path, error)
      }
    }
  }
}

/// A store that is taken, until this ends.
package struct StoreLock: ~Copyable, Sendable {
  let store: Descriptor
  let root: Descriptor

  /// Says that it is wanted until here.
  package borrowing func hold() {}
}

/// A recovery key as it is printed, wiped with its last reference.
package final class RecoveryKeyText: Sendable {
  package let text: SecretBytes

  init(_ text: consuming SecretBytes) {
    self.text = text
  }
}

/// Why a directory cannot be used as a store.
package enum StoreError: Error, Equatable, Sendable, CustomStringConvertible {
  case backingUnreadable(path: String, Errno)
  case noStore(path: String)
  case alreadyAStore(path: String)
  case notEmpty(path: String)
  case inUse(path: String)
  case noExtendedAttributes(path: String)

  package var description: String {
    switch self {
    case .backingUnreadable(let path, let error): "\(path) cannot be used: \(error)"
    case .noStore(let path): "\(path) is no store; make one with 'protectfs init \(path)'"
    case .alreadyAStore(let path): "\(path) is a store already; mount it with 'protectfs mount \(path) MOUNTPOINT'"
    case .notEmpty(let path): "\(path) is not empty; a store starts in an empty directory"
    case .inUse(let path):
      "\(path) is in use by another daemon or command; beside it a store can only be mounted with '-o ro'"
    case .noExtendedAttributes(let path):
      "the file system of \(path) has no user extended attributes, in which a store keeps its keys; use ext4, XFS, Btrfs or a recent tmpfs"
    }
  }
}
