import BackingTree
import FUSE
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// lookup, forget, link: existing names. The kernel serialises changes to a directory.
extension ProtectedFileSystem {
  package func lookup(_ name: PathName, in parent: NodeID) throws(Errno) -> Entry {
    let parent = node(parent)
    let (handle, record) = try tree.directory(parent)
    let backing = try tree.backingName(name, in: record)
    do throws(Errno) {
      let location = Node.Location(parent: parent, name: backing.name)
      guard let lookedUp = tree.options.lookedUp else {
        return try entry(handle.descriptor.status(of: backing.name), at: location)
      }
      var status = Status()
      let file = try openBesideWriter(backing.name, in: handle, &status)
      let entry = try entry(status, at: location)
      if status.type == .regular { lookedUp.hold(file, of: node(entry.node)) }
      return entry
    } catch .noSuchFileOrDirectory {
      // Node 0: the kernel may cache that there is no such name.
      return Entry(node: NodeID(rawValue: 0), attributes: Status(), entryTimeout: timeout, attributeTimeout: 0)
    }
  }

  /// Opens a name without access, and anew where another host has replaced its file before its status was read.
  private func openBesideWriter(
    _ name: PathName, in handle: SharedDescriptor, _ status: inout Status
  ) throws(Errno) -> Descriptor {
    for _ in 0..<10 {
      do throws(Errno) {
        let file = try handle.descriptor.open(name, [.path, .noFollow])
        do throws(Errno) { status = try file.status() } catch .noSuchFileOrDirectory { continue }
        return file
      } catch .staleNFSFileHandle {
        continue
      }
    }
    throw .staleNFSFileHandle
  }

  package func forget(_ node: NodeID, count: UInt64) {
    tree.nodes.forget(self.node(node), count: count)
  }

  package func link(_ id: NodeID, as name: PathName, in parent: NodeID) throws(Errno) -> Entry {
    let node = node(id)
    let parent = self.node(parent)
    let (handle, record) = try tree.directory(parent)
    let backing = try tree.backingName(name, in: record)
    let reference = try tree.reference(to: node)
    try tree.writeSidecar(of: backing, in: handle)
    do throws(Errno) {
      try tree.renames.read { () throws(Errno) in
        do throws(Errno) {
          try reference.withDescriptor { (descriptor) throws(Errno) in
            try descriptor.link(to: backing.name, in: handle.descriptor)
          }
        } catch {
          if error.mayBeDone { tree.moves.note(.init(parent: parent, name: backing.name)) }
          throw error
        }
        tree.moves.note(.init(parent: parent, name: backing.name))
      }
    } catch {
      tree.removeSidecar(of: backing, in: handle, after: error)
      throw error
    }
    do throws(Errno) {
      var entry = try entry(
        handle.descriptor.status(of: backing.name), at: .init(parent: parent, name: backing.name))
      entry.attributeTimeout = timeoutAfterChange(of: node)
      return entry
    } catch {
      undo(backing, in: handle, after: error) { () throws(Errno) in try handle.descriptor.unlink(backing.name) }
      throw error
    }
  }
}
