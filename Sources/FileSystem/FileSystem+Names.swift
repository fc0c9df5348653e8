import FUSE
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// lookup, forget, link, unlink, rmdir: names that exist. The kernel serialises changes to one directory.
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

  package func link(_ id: NodeID, as name: PathName, in parent: NodeID) throws(Errno) -> Entry {
    let node = nodes.node(id)
    let parent = nodes.node(parent)
    let (handle, record) = try directory(parent)
    let backing = try backingName(name, in: record)
    let reference = try reference(to: node)
    let hasNewSidecar = try writeSidecar(of: backing, in: handle)
    do throws(Errno) {
      try renames.read { () throws(Errno) in
        try reference.withDescriptor { (descriptor) throws(Errno) in
          try descriptor.link(to: backing.name, in: handle.descriptor)
        }
        moves.note(.init(parent: parent, name: backing.name))
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

  /// Takes a name away with `body`. If that was the last one of a file or directory, it is kept with its node, and what a
  /// link has in a target file goes.
  func keepingNameless(
    _ name: PathName, in handle: SharedDescriptor, _ body: () throws(Errno) -> Void
  ) throws(Errno) {
    let last: (file: SharedDescriptor, status: Status)
    do throws(Errno) {
      let file = SharedDescriptor(try handle.descriptor.open(name, [.path, .noFollow]))
      last = (file, try file.descriptor.status())
    } catch {
      // There is no such name, or no descriptor left: whoever holds the file by its node alone finds it stale.
      return try body()
    }
    guard last.status.links == 1 || last.status.type == .directory else { return try body() }
    let node = nodes.find(last.status)
    let target = try longTarget(of: last.file.descriptor, last.status)
    node?.state.withLock { $0.nameless = last.file }
    do throws(Errno) {
      try body()
    } catch {
      node?.state.withLock { $0.nameless = nil }
      throw error
    }
    // It may have been given another name meanwhile.
    if let target, try last.file.descriptor.status().links == 0 { removeTargetFile(of: target) }
  }

  package func removeDirectory(_ name: PathName, in parent: NodeID) throws(Errno) {
    let (handle, record) = try directory(nodes.node(parent))
    let backing = try backingName(name, in: record)
    try removeLeftovers(in: backing.name, of: handle)
    try keepingNameless(backing.name, in: handle) { () throws(Errno) in
      try handle.descriptor.removeDirectory(backing.name)
    }
    removeSidecar(of: backing, in: handle)
  }

  /// Sidecars whose names are gone are leftovers of a crash: no caller can see them, and they must not keep a directory
  /// from being removed.
  func removeLeftovers(in name: PathName, of handle: SharedDescriptor) throws(Errno) {
    let directory: Descriptor
    do throws(Errno) {
      let path = try handle.descriptor.open(name, [.path, .directory, .noFollow])
      directory = try openForListing(SharedDescriptor(path))
    } catch {
      // What cannot be opened is left to rmdir(2), which says why.
      return
    }
    let stream = DirectoryStream(directory)
    guard let names = try stream.onlySidecars() else { return }
    for name in names { try stream.descriptor.unlink(name) }
  }
}
