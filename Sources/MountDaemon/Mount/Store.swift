import BackingTree
import Cryptography
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// A store in a backing directory: how one is made, and the lock by which one daemon has it.
package enum Store {
  /// Makes a store in an empty directory, and returns its recovery key. A crash on the way leaves a directory in which
  /// it can be made again: the keybag comes last.
  ///
  /// - Parameter cost: of trying a passcode; `nil` for one that takes long enough on this machine.
  /// - Throws: `StoreError` where no store can be, `KeyManagementError` for what concerns keys.
  package static func create(
    in path: String, defaultClass: ProtectionClass, authenticatesContents: Bool = false,
    passcode: borrowing SecretBytes, eraseAfter: UInt8?, deviceKeyFile: String?, cost: ScryptParameters? = nil
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
      defaultClass: defaultClass, authenticatesContents: authenticatesContents, passcode: passcode,
      deviceKey: deviceKey, storeID: storeID, eraseAfter: eraseAfter, cost: cost)
    try KeybagFile.makeDirectory(in: backing)
    // On other hosts too.
    let claim = try lock(backing, path: path, for: .change)
    try requireRoomForStore(backing, path)
    try BackingTree.writeRootRecord(
      to: backing, defaultClass: defaultClass, volume: VolumeKeys(deviceKey, storeID: storeID))
    try backing.synchronize()
    let file = try KeybagFile(backing: backing)
    try file.commit(new.change)
    file.reserveAttempts()
    claim.hold()
    return (storeID, RecoveryKeyText(try new.recoveryKey.text()))
  }

  /// What of a store is in a directory.
  package enum Trace {
    case keybag
    /// The place of the keybag: the store is being made, or its keybag is gone or may not be seen.
    case directory
  }

  /// Looks for a store in a directory; `nil` where there is none.
  package static func trace(in backing: borrowing Descriptor) throws(Errno) -> Trace? {
    if (try? backing.status(of: PathName("\(NameEncoding.storeDirectory)/keybag"))) != nil { return .keybag }
    do throws(Errno) {
      _ = try backing.status(of: PathName(NameEncoding.storeDirectory))
      return .directory
    } catch {
      guard error == .noSuchFileOrDirectory else { throw error }
      return nil
    }
  }

  /// Makes durable what was taken out of a class, before the class's keys are erased: some file systems (Btrfs) do not
  /// write the records of other files when a keybag is synchronized.
  ///
  /// - Throws: `keybagUnwritable`: nothing may be erased then.
  static func prepareErasure(of backing: borrowing Descriptor) throws(KeyManagementError) {
    do throws(Errno) { try backing.synchronizeFileSystem() } catch { throw .keybagUnwritable(error) }
  }

  /// Opens a backing directory.
  package static func open(_ path: String) throws(StoreError) -> Descriptor {
    do throws(Errno) {
      return try Descriptor.open(PathName(path), [.readOnly, .directory])
    } catch {
      throw .backingUnreadable(path: path, error)
    }
  }

  /// Finds out whether a store that was copied here has its records.
  package static func requireAttributes(_ backing: borrowing Descriptor, path: String) throws(StoreError) {
    do throws(Errno) {
      _ = try backing.attribute(PathName(DirectoryRecord.attributeName))
    } catch .noData {
      throw .noRootRecord(path: path)
    } catch {
      throw error == .notSupportedOnSocket
        ? .noExtendedAttributes(path: path) : .backingUnreadable(path: path, error)
    }
  }

  private static func requireRoomForStore(_ backing: borrowing Descriptor, _ path: String) throws(StoreError) {
    do throws(Errno) {
      let names = try backing.names(limit: 4)
      if names.contains(PathName(NameEncoding.storeDirectory)) {
        let store = try backing.open(PathName(NameEncoding.storeDirectory), [.path, .directory, .noFollow])
        if try store.names(limit: 100).contains("keybag") { throw Errno.fileExists }
      }
      guard names.allSatisfy({ $0 == PathName(NameEncoding.storeDirectory) }) else { throw Errno.directoryNotEmpty }
      // No name that a mount, on which the store may lie, has for itself.
      try backing.setAttribute("user.cprotect.probe", to: [1])
      try backing.removeAttribute("user.cprotect.probe")
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

/// A recovery key as it is printed, wiped with its last reference.
package final class RecoveryKeyText: Sendable {
  package let text: SecretBytes

  init(_ text: consuming SecretBytes) {
    self.text = text
  }
}
