import BackingTree
import Contents
import Cryptography
import FUSE
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

// create, mknod, mkdir: new names. A new file or directory belongs to the caller and takes its directory's class. A
// failure leaves no name behind, as far as the backing file system says what it has done.
extension ProtectedFileSystem {
  package func create(
    _ name: PathName, in parent: NodeID, mode: UInt32, flags: HandleFlags, caller: Caller
  ) throws(Errno) -> (Entry, Opened) {
    let parent = node(parent)
    do throws(Errno) {
      return try makeFile(name, in: parent, mode: mode, caller: caller) { (file, node, entry) in
        let opened = opened(tree.adopt(file, for: node, forWriting: flags.forWriting))
        var entry = entry
        entry.attributeTimeout = timeoutAfterChange(of: node)
        return (entry, opened)
      }
    } catch .fileExists where !flags.exclusive {
      // Someone created it behind the mount's back after the kernel's lookup. The kernel looks again after ESTALE, and
      // then opens the file as any other, with its checks.
      throw .staleNFSFileHandle
    }
  }

  package func makeNode(
    _ name: PathName, in parent: NodeID, mode: UInt32, device: UInt64, caller: Caller
  ) throws(Errno) -> Entry {
    let parent = node(parent)
    if mode & 0o170000 == InodeType.regular.rawValue || mode & 0o170000 == 0 {
      return try makeFile(name, in: parent, mode: mode, caller: caller) { $2 }
    }
    return try make(name, in: parent) { (handle, name, _) throws(Errno) in
      Memory.setThreadUmask(caller.umask)
      try handle.descriptor.makeNode(name, mode: mode, device: device)
      try self.giveToCaller(name, in: handle, parent: parent, caller: caller)
      // The change of owner has removed set-ID bits.
      if mode & 0o6000 != 0 {
        let node = try handle.descriptor.open(name, [.path, .noFollow])
        let permissions = try node.status().permissions
        if permissions & 0o6000 != mode & 0o6000 {
          try node.setModeThroughPath(permissions & ~0o6000 | (mode & 0o6000))
        }
      }
    } undo: { (handle, name) throws(Errno) in
      try handle.descriptor.unlink(name)
    }
  }

  package func makeDirectory(
    _ name: PathName, in parent: NodeID, mode: UInt32, caller: Caller
  ) throws(Errno) -> Entry {
    let parent = node(parent)
    return try make(name, in: parent) { (handle, name, record) throws(Errno) in
      Memory.setThreadUmask(caller.umask)
      try handle.descriptor.makeDirectory(name, mode: mode)
      try self.giveToCaller(name, in: handle, parent: parent, caller: caller)
      let descriptor = try handle.descriptor.open(name, [.path, .directory, .noFollow])
      try tree.writeDirectoryRecord(tree.newDirectory(in: record), to: descriptor)
    } undo: { (handle, name) throws(Errno) in
      try handle.descriptor.removeDirectory(name)
    }
  }

  /// Creates an empty regular file with its record, and returns what `use` makes of it. The file keeps its cipher, so
  /// that a class B file can be written while locked. No rotation comes between, which would replace the record on disk
  /// and not in a file that `use` opens.
  private func makeFile<Result>(
    _ name: PathName, in parent: Node, mode: UInt32, caller: Caller,
    _ use: (ProtectedFile, Node, Entry) -> Result
  ) throws(Errno) -> Result {
    let (handle, directory) = try tree.directory(parent)
    let backing = try tree.backingName(name, in: directory)
    let location = Node.Location(parent: parent, name: backing.name)
    let kept = classLeft(at: location, by: caller.user, insteadOf: directory.directoryClass, caller)
    let fileClass = kept ?? directory.directoryClass
    return try reportingDenial(of: .create, on: parent, inClass: fileClass, by: caller) { () throws(Errno) in
      try tree.keyChanges.read { () throws(Errno) in
        let (record, cipher) = try tree.newFileRecord(in: fileClass, isExplicit: kept != nil)
        let (file, status) = try makeFile(backing, record, cipher, in: parent, handle, mode: mode, caller: caller)
        let node = tree.nodes.remember(status, at: location)
        return use(file, node, entry(of: node, status))
      }
    }
  }

  private func makeFile(
    _ backing: BackingName, _ record: FileRecord, _ cipher: ContentsCipher, in parent: Node, _ handle: SharedDescriptor,
    mode: UInt32, caller: Caller
  ) throws(Errno) -> (ProtectedFile, Status) {
    try tree.writeSidecar(of: backing, in: handle)
    Memory.setThreadUmask(caller.umask)
    let descriptor: Descriptor
    do throws(Errno) {
      descriptor = try handle.descriptor.open(
        backing.name, [.readWrite, .create, .exclusive, .noFollow, .keepAccessTime], mode: mode & 0o7777)
    } catch {
      tree.removeSidecar(of: backing, in: handle, after: error)
      throw error
    }
    do throws(Errno) {
      try tree.requireRoom(for: descriptor)
      try setOwner(of: descriptor, parent: parent, mode: mode, caller: caller)
      try tree.setRecord(record.bytes, of: descriptor)
      let status = try descriptor.status()
      let file = try ProtectedFile(
        descriptor: descriptor, layout: tree.options.layout, isWritable: true, record: record, cipher: cipher,
        status: status, controller: tree.controller, writers: tree.options.writers)
      return (file, status)
    } catch {
      undo(backing, in: handle, after: error) { () throws(Errno) in try handle.descriptor.unlink(backing.name) }
      throw error
    }
  }

  /// Creates a name: first the sidecar, then what `body` creates. If a step fails, everything is undone.
  func make(
    _ name: PathName, in parent: Node,
    _ body: (SharedDescriptor, PathName, Node.Directory) throws(Errno) -> Void,
    undo remove: (SharedDescriptor, PathName) throws(Errno) -> Void
  ) throws(Errno) -> Entry {
    let (handle, record) = try tree.directory(parent)
    let backing = try tree.backingName(name, in: record)
    try tree.writeSidecar(of: backing, in: handle)
    do throws(Errno) {
      try body(handle, backing.name, record)
      return try entry(handle.descriptor.status(of: backing.name), at: .init(parent: parent, name: backing.name))
    } catch {
      if error != .fileExists {
        undo(backing, in: handle, after: error) { () throws(Errno) in try remove(handle, backing.name) }
      }
      throw error
    }
  }

  /// Removes what a failed creation has made, and its sidecar.
  func undo(
    _ name: BackingName, in handle: SharedDescriptor, after failure: Errno, _ remove: () throws(Errno) -> Void
  ) {
    do throws(Errno) {
      try remove()
    } catch {
      if error == .noSuchFileOrDirectory { return tree.removeSidecar(of: name, in: handle, after: failure) }
      tree.log.error("an incomplete file was left behind", metadata: ["backing": "\(name.name)", "error": "\(error)"])
    }
    tree.removeSidecar(of: name, in: handle)
  }

  /// Gives a new name to the caller, if the daemon is another user.
  func giveToCaller(
    _ name: PathName, in handle: SharedDescriptor, parent: Node, caller: Caller
  ) throws(Errno) {
    guard let owner = newOwner(parent: parent, caller: caller) else { return }
    try handle.descriptor.setOwner(of: name, user: owner.user, group: owner.group)
  }

  /// Gives an open file to the caller. A change of owner removes set-ID bits, so they are set again.
  private func setOwner(
    of descriptor: borrowing Descriptor, parent: Node, mode: UInt32, caller: Caller
  ) throws(Errno) {
    guard let owner = newOwner(parent: parent, caller: caller) else { return }
    try descriptor.setOwner(user: owner.user, group: owner.group)
    if mode & 0o6000 != 0 {
      try descriptor.setMode(descriptor.status().permissions | (mode & 0o6000))
    }
  }

  /// The owner that a new file needs, if it differs from the user and group that the daemon runs as. In a set-group-ID
  /// directory the backing file system has already given the file the directory's group.
  private func newOwner(parent: Node, caller: Caller) -> (user: UInt32?, group: UInt32?)? {
    let user = caller.user == tree.daemonIdentity.user ? nil : caller.user
    let takesGroup = parent.state.withLock { $0.setsGroup }
    let group = takesGroup || caller.group == tree.daemonIdentity.group ? nil : caller.group
    return user == nil && group == nil ? nil : (user, group)
  }
}
