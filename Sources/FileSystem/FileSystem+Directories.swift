import BackingTree
import FUSE
import ProtectfsIO
import StoreFormat
import Synchronization
import SystemPackage

// opendir, readdir, readdirplus, releasedir, fsyncdir.
extension ProtectedFileSystem {
  /// An open directory: the node that its names belong to, and its stream. The stream is opened at the first read, and
  /// there is no descriptor until then, because some programs open thousands of directories only to hold them.
  final class OpenDirectory: Sendable {
    let node: Node
    /// `O_NOATIME`.
    private let keepsAccessTime: Bool
    private let opened = RankedMutex<DirectoryStream?>(.openDirectory, nil)
    /// The error of a name that could not be read since the stream was at its start; 0 if there was none.
    let failure = Atomic<CInt>(0)

    init(node: Node, keepsAccessTime: Bool) {
      self.node = node
      self.keepsAccessTime = keepsAccessTime
    }

    func stream(
      _ open: (_ keepsAccessTime: Bool) throws(Errno) -> Descriptor
    ) throws(Errno) -> DirectoryStream {
      try opened.withLock { (opened) throws(Errno) in
        if let opened { return opened }
        let stream = DirectoryStream(try open(keepsAccessTime))
        opened = stream
        return stream
      }
    }
  }

  package func openDirectory(_ id: NodeID, flags: HandleFlags) throws(Errno) -> Opened {
    let node = node(id)
    _ = try tree.directory(node)
    let keepsAccessTime = flags.keepsAccessTime || !tree.options.writers.mayWrite
    let open = OpenDirectory(node: node, keepsAccessTime: keepsAccessTime)
    // Balanced by the release in `releaseDirectory`.
    let address = unsafe UInt64(UInt(bitPattern: Unmanaged.passRetained(open).toOpaque()))
    return Opened(handle: Handle(rawValue: address), cachesDirectory: tree.options.writers == .sole)
  }

  private func stream(of open: OpenDirectory) throws(Errno) -> DirectoryStream {
    try open.stream { (keepsAccessTime) throws(Errno) in
      let descriptor = try tree.openForListing(tree.directoryHandle(open.node), keepsAccessTime: keepsAccessTime)
      try tree.requireRoom(for: descriptor, isDirectory: true)
      return descriptor
    }
  }

  package func readDirectory(
    _ handle: Handle, from offset: UInt64, into listing: inout DirectoryListing
  ) throws(Errno) -> ReadAhead? {
    let open = openDirectory(handle)
    // With other writers, it may have been given its record since it was opened.
    let (directory, record) = try tree.directory(open.node)
    let stream = try stream(of: open)
    if offset == 0 { open.failure.store(0, ordering: .relaxed) }
    var isFull = false
    // `listing` is inout and ~Copyable: the closure borrows it while the stream runs.
    do throws(Errno) {
      try stream.entries(from: offset) { (raw) throws(Errno) in
        isFull = try !append(raw, of: open, directory, record, to: &listing)
        return !isFull
      }
    } catch {
      // The kernel gets the entries before, which it has looked up by that, and the error when it asks for the next.
      guard !listing.isEmpty else { throw error }
      return nil
    }
    // Nobody is to take what was listed for the whole.
    let failure = open.failure.load(ordering: .relaxed)
    if failure != 0, listing.isEmpty { throw Errno(rawValue: failure) }
    guard isFull, listing.isPlus else { return nil }
    return { Self.loadInodes(of: stream.upcoming(256), in: directory) }
  }

  /// All names in a directory, for who asks without the kernel in between.
  ///
  /// - Parameter undecodable: told the backing name of each entry that callers do not see, or whose name cannot be
  ///   read, and that is not the store's own; and, in the root, that of what a repair has moved out of the tree.
  package func names(of id: NodeID, undecodable: (PathName) -> Void) throws(Errno) -> [PathName] {
    let node = node(id)
    let (handle, record) = try tree.directory(node)
    var names: [PathName] = []
    try DirectoryStream(tree.openForListing(handle)).entries(from: 0) { (raw) throws(Errno) in
      guard raw.name != ".", raw.name != ".." else { return true }
      if let name = try? tree.visibleName(of: raw.name, in: node, record, handle) {
        names.append(name)
      } else {
        let name = node === tree.nodes.root && raw.name == Self.storeDirectory ? Self.movedOut : raw.name
        if !tree.isOwn(name, in: node), holdsSomething(name, in: node, handle) { undecodable(name) }
      }
      return true
    }
    return names
  }

  private static let storeDirectory = PathName(NameEncoding.storeDirectory)
  /// Where `fsck --repair` moves what has no place in the tree.
  private static let movedOut = PathName("\(NameEncoding.storeDirectory)/lost+found")

  /// Whether there still is something under a backing name. An empty `lost+found` in the root is the backing file
  /// system's, and nothing.
  private func holdsSomething(_ name: PathName, in node: Node, _ handle: SharedDescriptor) -> Bool {
    do throws(Errno) {
      _ = try handle.descriptor.status(of: name)
      guard node === tree.nodes.root, [Self.movedOut, "lost+found"].contains(name) else { return true }
      return try !handle.descriptor.open(name, [.readOnly, .directory, .noFollow]).nextNames().isEmpty
    } catch {
      return error != .noSuchFileOrDirectory
    }
  }

  /// Makes the backing file system load inodes that the kernel will ask for next, while the kernel processes the last
  /// answer.
  private static func loadInodes(of names: [PathName], in directory: SharedDescriptor) {
    // An error is reported when the kernel asks for the inode.
    for name in names { _ = try? directory.descriptor.status(of: name) }
  }

  /// Adds an entry. Returns `false` if the entry does not fit.
  private func append(
    _ raw: DirectoryEntry, of open: OpenDirectory, _ directory: SharedDescriptor, _ record: Node.Directory,
    to listing: inout DirectoryListing
  ) throws(Errno) -> Bool {
    if raw.name == "." || raw.name == ".." {
      guard listing.fits(raw.name) else { return false }
      listing.append(raw.name, inode: raw.inode, mode: raw.type, next: raw.next)
      return true
    }
    let name: PathName?
    do throws(Errno) {
      name = try tree.visibleName(of: raw.name, in: open.node, record, directory)
    } catch {
      // It hides no other name: the error comes behind the last of them.
      open.failure.store(error.rawValue, ordering: .relaxed)
      return true
    }
    guard let name else { return true }
    guard listing.fits(name) else { return false }
    guard listing.isPlus else {
      listing.append(name, inode: raw.inode, mode: raw.type, next: raw.next)
      return true
    }
    do throws(Errno) {
      let status = try directory.descriptor.status(of: raw.name)
      try listing.append(name, entry(status, at: .init(parent: open.node, name: raw.name)), next: raw.next)
    } catch {
      // Removed since it was read, so it is left out.
      if error == .noSuchFileOrDirectory { return true }
      // The directory may be read but not searched, or something is mounted there.
      guard error == .permissionDenied || error == .improperLink else { throw error }
      listing.append(name, inode: raw.inode, mode: raw.type, next: raw.next)
    }
    return true
  }

  package func releaseDirectory(_ handle: Handle) {
    let address = unsafe UnsafeRawPointer(bitPattern: UInt(handle.rawValue))!
    unsafe Unmanaged<OpenDirectory>.fromOpaque(address).release()
  }

  package func synchronizeDirectory(_ handle: Handle) throws(Errno) {
    try stream(of: openDirectory(handle)).descriptor.synchronize()
  }

  private func openDirectory(_ handle: Handle) -> OpenDirectory {
    let address = unsafe UnsafeRawPointer(bitPattern: UInt(handle.rawValue))!
    return unsafe Unmanaged<OpenDirectory>.fromOpaque(address).takeUnretainedValue()
  }
}
