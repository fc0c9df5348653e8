import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

extension Store {
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

  /// Takes the store: locks on its two directories, which end with the process whatever becomes of it (flock(2)), and
  /// for those who write ``WriterClaim``, since other hosts may not see these. The store's own directory is for those
  /// who write, the backing directory for all who mount.
  ///
  /// One that nobody has mounted is waited for, up to five seconds: a daemon whose mount is gone goes soon, and so does
  /// a change of the passcode.
  ///
  /// - Parameter isStandby: nothing is waited for here, and the claim of a host that may be cut off is not taken.
  /// - Throws: `inUse` when someone has it who leaves no room for this use, `written` when that is known of the claim
  ///   alone.
  package static func lock(
    _ backing: borrowing Descriptor, path: String, for use: Use, isStandby: Bool = false
  ) throws(StoreError) -> StoreLock {
    let deadline = MonotonicClock.now + .seconds(5)
    while true {
      do throws(StoreError) {
        return try take(backing, path: path, for: use, isStandby: isStandby)
      } catch {
        guard !isStandby, error.isOfAnother, !isMounted(backing), MonotonicClock.now < deadline else { throw error }
        MonotonicClock.sleep(microseconds: 10_000)
      }
    }
  }

  /// Takes the claim to write from whoever has it on another host, which is off. Returns whether somebody had it.
  ///
  /// - Throws: `inUse` when a process of this host has the store.
  package static func takeOver(_ path: String) throws(StoreError) -> Bool {
    let backing = try open(path)
    let deadline = MonotonicClock.now + .seconds(5)
    while true {
      do throws(StoreError) {
        let store = try locked(NameEncoding.storeDirectory, in: backing, isShared: false, path)
        return try WriterClaim.revoke(in: store, path: path)
      } catch {
        // A standby has it each second.
        guard error.isOfAnother, MonotonicClock.now < deadline else { throw error }
        MonotonicClock.sleep(microseconds: 10_000)
      }
    }
  }

  private static func isMounted(_ backing: borrowing Descriptor) -> Bool {
    guard let own = try? backing.status() else { return false }
    return MountedFileSystem.all().contains { mount in
      guard mount.isTrusted(by: own.user) else { return false }
      // The store of another mount may be on a file system that does not answer.
      let other = try? BoundedCall.result(about: mount.backing) { () throws(Errno) in
        try Descriptor.open(PathName(mount.backing), [.path]).status()
      }
      return other?.device == own.device && other?.inode == own.inode
    }
  }

  private static func take(
    _ backing: borrowing Descriptor, path: String, for use: Use, isStandby: Bool
  ) throws(StoreError) -> StoreLock {
    let (writing, presence): (Bool?, Bool?) =
      switch use {
      case .mount(isReadOnly: true): (nil, true)
      case .mount(isReadOnly: false): (false, true)
      case .check: (true, nil)
      case .repair: (false, false)
      case .change: (false, nil)
      }
    let store = try locked(NameEncoding.storeDirectory, in: backing, isShared: writing, path)
    let root = try locked(".", in: backing, isShared: presence, path)
    let claim = writing == false ? try WriterClaim.take(in: store, path: path, isStandby: isStandby) : nil
    if case .mount = use {} else { claim?.endProcessWhenLost(path) }
    let exclusion = writing == true ? try WriterClaim.keepOut(in: store, path: path) : nil
    return StoreLock(store: store, root: root, claim: claim, exclusion: exclusion)
  }

  /// Opens one of the two directories, and locks it where that is wanted.
  private static func locked(
    _ name: String, in backing: borrowing Descriptor, isShared: Bool?, _ path: String
  ) throws(StoreError) -> Descriptor {
    do throws(Errno) {
      let directory = try backing.open(PathName(name), [.readOnly, .directory, .noFollow])
      if let isShared { try directory.lock(isShared: isShared) }
      return directory
    } catch {
      switch error {
      case .noSuchFileOrDirectory: throw .noStore(path: path)
      case .wouldBlock: throw .inUse(path: path)
      default: throw .backingUnreadable(path: path, error)
      }
    }
  }
}

/// A store that is taken, until this ends.
package struct StoreLock: ~Copyable, Sendable {
  let store: Descriptor
  /// The backing directory.
  let root: Descriptor
  /// Of those who write.
  let claim: WriterClaim?
  /// Of those who keep writers out.
  let exclusion: Descriptor?

  /// Says that it is wanted until here.
  package borrowing func hold() {}

  deinit { claim?.leave() }
}

extension StoreError {
  /// Whether it is to be expected that who has the store goes soon.
  fileprivate var isOfAnother: Bool {
    switch self {
    case .inUse, .written: true
    default: false
    }
  }

  /// Whether another may go sooner or later, or the file system answer again.
  var mayPass: Bool {
    switch self {
    case .writerFileMalformed, .noExtendedAttributes, .noRootRecord, .alreadyAStore, .notEmpty: false
    default: true
    }
  }
}
