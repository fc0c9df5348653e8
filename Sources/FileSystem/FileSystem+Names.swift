import DataProtection
import FUSE
import FileProtection
import LinuxIO
import SystemPackage

// lookup, forget, readlink, link, unlink, rmdir: names that exist. The kernel serialises changes to one directory.
extension ProtectedFileSystem {
  package func lookup(_ name: PathName, in parent: NodeID) throws(Errno) -> Entry {
    let parent = nodes.node(parent)
    let (handle, record) = try directory(parent)
    let backing = try backingName(name, in: record)
    do throws(Errno) {
      let status = try handle.descriptor.status(of: backing.name)
      return entry(status, at: .init(parent: parent, name: backing.name))
    } catch .noSuchFileOrDirectory {
      // Node 0: the kernel may keep it that there is no such name.
      return Entry(node: NodeID(rawValue: 0), attributes: Attributes(), entryTimeout: timeout, attributeTimeout: 0)
    }
  }

  package func forget(_ node: NodeID, count: UInt64) {
    nodes.forget(node, count: count)
  }

  package func readSymbolicLink(_ id: NodeID) throws(Errno) -> PathName {
    let node = nodes.node(id)
    guard node.isSymbolicLink else { throw .invalidArgument }
    let reference = try reference(to: node)
    return try plainTarget(
      reference.withDescriptor { (descriptor) throws(Errno) in try descriptor.target(ofSymbolicLink: "") })
  }

  package func link(_ id: NodeID, as name: PathName, in parent: NodeID) throws(Errno) -> Entry {
    let node = nodes.node(id)
    let parent = nodes.node(parent)
    let (handle, record) = try directory(parent)
    let backing = try backingName(name, in: record)
    let reference = try reference(to: node)
    let hasNewSidecar = try writeSidecar(of: backing, in: handle)
    do throws(Errno) {
      try reference.withDescriptor { (descriptor) throws(Errno) in
        try descriptor.link(to: backing.name, in: handle.descriptor)
      }
    } catch {
      if error != .fileExists, hasNewSidecar { removeSidecar(of: backing, in: handle) }
      throw error
    }
    do throws(Errno) {
      return entry(
        try handle.descriptor.status(of: backing.name), at: .init(parent: parent, name: backing.name))
    } catch {
      undo(backing, in: handle) { () throws(Errno) in try handle.descriptor.unlink(backing.name) }
      throw error
    }
  }

  package func unlink(_ name: PathName, in parent: NodeID) throws(Errno) {
    let (handle, record) = try directory(nodes.node(parent))
    let backing = try backingName(name, in: record)
    try keepingNameless(backing.name, in: handle) { () throws(Errno) in try handle.descriptor.unlink(backing.name) }
    removeSidecar(of: backing, in: handle)
  }

  /// Takes a name away with `body`, and keeps the file with its node if that was its last name.
  func keepingNameless(
    _ name: PathName, in handle: DirectoryHandle, _ body: () throws(Errno) -> Void
  ) throws(Errno) {
    let node = keepNameless(name, in: handle)
    do throws(Errno) {
      try body()
    } catch {
      node?.state.withLock { $0.nameless = nil }
      throw error
    }
  }

  private func keepNameless(_ name: PathName, in handle: DirectoryHandle) -> Node? {
    do throws(Errno) {
      let descriptor = try handle.descriptor.open(name, [.path, .noFollow])
      let status = try descriptor.status()
      guard status.links == 1, let node = nodes.find(status), !node.isDirectory else { return nil }
      let file = NamelessFile(descriptor)
      node.state.withLock { $0.nameless = file }
      return node
    } catch {
      // There is no such name, or no descriptor left: whoever holds the file by its node alone finds it stale.
      return nil
    }
  }

  package func removeDirectory(_ name: PathName, in parent: NodeID) throws(Errno) {
    let parent = nodes.node(parent)
    let (handle, record) = try directory(parent)
    let backing = try backingName(name, in: record)
    try keepOpen(backing.name, in: parent, handle)
    try removeLeftovers(in: backing.name, of: handle)
    try handle.descriptor.removeDirectory(backing.name)
    removeSidecar(of: backing, in: handle)
  }

  /// A directory that is removed while it is somebody's working directory still answers: its descriptor stays with the
  /// node.
  private func keepOpen(_ name: PathName, in parent: Node, _ handle: DirectoryHandle) throws(Errno) {
    guard let node = nodes.find(try handle.descriptor.status(of: name)), node.isDirectory else { return }
    node.moved(to: .init(parent: parent, name: name), hasOtherNames: false)
    _ = try directoryHandle(node)
  }

  /// Sidecars whose names are gone are leftovers of a crash: no caller can see them, and they must not keep a directory
  /// from being removed.
  private func removeLeftovers(in name: PathName, of handle: DirectoryHandle) throws(Errno) {
    let directory: Descriptor
    do throws(Errno) {
      directory = try handle.descriptor.open(name, [.readOnly, .directory, .noFollow])
    } catch {
      // What cannot be opened is left to rmdir(2), which says why.
      return
    }
    let stream = DirectoryStream(directory)
    guard let names = try stream.onlySidecars() else { return }
    for name in names { try stream.descriptor.unlink(name) }
  }
}
