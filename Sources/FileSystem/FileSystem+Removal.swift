import BackingTree
import FUSE
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

// unlink, rmdir.
extension ProtectedFileSystem {
  package func unlink(_ name: PathName, in parent: NodeID, caller: Caller) throws(Errno) {
    let parent = node(parent)
    let (handle, record) = try tree.directory(parent)
    let backing = try tree.backingName(name, in: record)
    let location = Node.Location(parent: parent, name: backing.name)
    try requireRemovable(location, in: handle, record.directoryClass, by: caller)
    let file = try? tree.named(backing.name, in: handle)
    let former = former(file, at: location)
    try tree.keepingUnlinked(file, at: location) { () throws(Errno) in try handle.descriptor.unlink(backing.name) }
    tree.vacated.note(location, former)
    tree.removeSidecar(of: backing, in: handle)
  }

  package func removeDirectory(_ name: PathName, in parent: NodeID) throws(Errno) {
    let parent = node(parent)
    let (handle, record) = try tree.directory(parent)
    let backing = try tree.backingName(name, in: record)
    let location = Node.Location(parent: parent, name: backing.name)
    try tree.keepingUnlinked(try? tree.named(backing.name, in: handle), at: location) { () throws(Errno) in
      try tree.ignoringLeftovers(in: backing.name, of: handle) { () throws(Errno) in
        try handle.descriptor.removeDirectory(backing.name)
      }
    }
    tree.vacated.note(location, nil)
    tree.removeSidecar(of: backing, in: handle)
  }

  /// Refuses to remove a file if none of its class, or of that of its directory, can be created now. Programs that
  /// remove a file before they create its successor (`cp -f`, `mv` from another file system, `tar -x`) would be left
  /// with neither.
  private func requireRemovable(
    _ location: Node.Location, in handle: SharedDescriptor, _ directoryClass: ProtectionClass, by caller: Caller
  ) throws(Errno) {
    guard tree.options.keepsLocked,
      ProtectionClass.allCases.contains(where: { !tree.controller.allows(.remove, on: $0) })
    else { return }
    let (node, fileClass): (Node, ProtectionClass)
    do throws(Errno) {
      switch try storedRecord(of: tree.named(location.name, in: handle), at: location) {
      // What was erased can be read in no state, and removed in all.
      case .stored(let record, _) where tree.controller.hasEnded(record): return
      case .stored(let record, let file): (node, fileClass) = (file, record.fileClass)
      case .awaited(let file): (node, fileClass) = (file, directoryClass)
      case .noFile: return
      }
    } catch .ioError {
      // So can what is damaged: its class is not known.
      return
    }
    for refused in [fileClass, directoryClass] where !tree.controller.allows(.remove, on: refused) {
      denied(.remove, on: node, of: refused, by: caller)
      throw .permissionDenied
    }
  }
}
