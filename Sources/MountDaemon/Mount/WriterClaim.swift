import ProtectfsIO
import StoreFormat
import SystemPackage

/// The claim to write a store: a lock on all bytes of `.protectfs/writer`, a file that is never replaced or removed
/// (FORMAT.md, section 2).
///
/// Locks of flock(2) on directories say the same on one host. Network file systems may grant those to each host; this
/// lock counts on all that a file system serves.
enum WriterClaim {
  private static let name = PathName(NameEncoding.writerFile)

  /// Takes the claim, until the descriptor is closed.
  ///
  /// - Parameters:
  ///   - store: the store's own directory.
  ///   - path: the backing directory, for messages.
  /// - Throws: `StoreError.written` when another process has it, here or on another host.
  static func take(in store: borrowing Descriptor, path: String) throws(StoreError) -> Descriptor {
    let file = try opened(path) { () throws(Errno) in
      let file = try openOrCreate(in: store)
      // Who can open it can lock it, and keep writers out.
      if try file.status().permissions != 0o600 { try file.setMode(0o600) }
      return file
    }
    try lock(file, isShared: false, path)
    return file
  }

  /// Has nobody write for as long as the descriptor is open; `nil` where no writer has made the file yet.
  ///
  /// - Throws: as ``take(in:path:)``.
  static func keepOut(in store: borrowing Descriptor, path: String) throws(StoreError) -> Descriptor? {
    guard (try? store.exists(name)) != false else { return nil }
    let file = try opened(path) { () throws(Errno) in try open(in: store, [.readOnly]) }
    try lock(file, isShared: true, path)
    return file
  }

  private static func openOrCreate(in store: borrowing Descriptor) throws(Errno) -> Descriptor {
    // A new store has none.
    guard (try? store.exists(name)) == false else { return try open(in: store, [.readWrite]) }
    let file = try open(in: store, [.readWrite, .create])
    // Root that writes another user's store must not take it from them.
    let (owner, own) = (try store.status(), try file.status())
    if own.user != owner.user, Process.identity.user == 0 { try file.setOwner(user: owner.user, group: owner.group) }
    return file
  }

  private static func open(in store: borrowing Descriptor, _ flags: OpenFlags) throws(Errno) -> Descriptor {
    let file = try store.open(name, flags.union([.noFollow, .nonBlocking]), mode: 0o600)
    guard try file.status().type == .regular else { throw .invalidArgument }
    return file
  }

  private static func opened(
    _ path: String, _ open: () throws(Errno) -> Descriptor
  ) throws(StoreError) -> Descriptor {
    do throws(Errno) {
      return try open()
    } catch {
      switch error {
      case .readOnlyFileSystem: throw .readOnlyFileSystem(path: path)
      case .invalidArgument, .tooManySymbolicLinkLevels, .isDirectory: throw .writerFileMalformed(path: path)
      default: throw .backingUnreadable(path: path, error)
      }
    }
  }

  private static func lock(_ file: borrowing Descriptor, isShared: Bool, _ path: String) throws(StoreError) {
    do throws(Errno) {
      try file.lockBytes(isShared: isShared)
    } catch {
      throw error == .wouldBlock ? .written(path: path) : .noLocks(path: path, error)
    }
  }
}
