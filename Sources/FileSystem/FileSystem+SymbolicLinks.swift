import BackingTree
import FUSE
import ProtectfsIO
import SystemPackage

// symlink, readlink. A target that does not fit into the backing link's text is stored in a long symlink file, which is
// written before the link and removed after its last name.
extension ProtectedFileSystem {
  package func makeSymbolicLink(
    _ name: PathName, in parent: NodeID, target: PathName, caller: Caller
  ) throws(Errno) -> Entry {
    let parent = node(parent)
    let (text, long) = try tree.backingText(forTarget: target)
    do throws(Errno) {
      return try make(name, in: parent) { (handle, name, _) throws(Errno) in
        try handle.descriptor.makeSymbolicLink(name, target: text)
        try self.giveToCaller(name, in: handle, parent: parent, caller: caller)
      } undo: { (handle, name) throws(Errno) in
        try handle.descriptor.unlink(name)
      }
    } catch {
      if let long { tree.removeLongSymlinkFile(of: long) }
      throw error
    }
  }

  package func readSymbolicLink(_ id: NodeID) throws(Errno) -> PathName { try tree.target(of: node(id)) }
}
