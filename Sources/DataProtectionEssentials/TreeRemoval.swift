import ProtectfsIO
import SystemPackage

extension Descriptor {
  /// Removes a name that is no directory's. A mount refuses this where none of the file's class could be created in its
  /// place now. Nothing is to come there: a symbolic link, which has no class, takes the place first.
  package func removeFile(_ name: PathName) throws(Errno) {
    do throws(Errno) {
      try unlink(name)
    } catch {
      guard error == .permissionDenied else { throw error }
      let link = PathName(StagingName.make())
      try makeSymbolicLink(link, target: link)
      do throws(Errno) {
        try rename(link, to: name, in: self)
      } catch {
        try? unlink(link)
        throw error
      }
      try unlink(name)
    }
  }

  /// Removes what has a name in this directory: a file, or a directory with all that is in it. Symbolic links are not
  /// followed. What is mounted in it stays.
  ///
  /// - Throws: `EBUSY` if a file system is mounted in it.
  package func removeTree(_ name: PathName) throws(Errno) {
    do throws(Errno) {
      return try removeFile(name)
    } catch {
      guard error == .isDirectory || error == .notPermitted else { throw error }
    }
    let above = SharedDescriptor(try open(".", [.path, .directory]))
    var descent = TreeDescent<SharedDescriptor, Void>()
    try descent.enterRemoved(name, try NestedDirectory("", above, (), in: nil), above)
    while let directory = descent.directory {
      if let name = descent.nextName() {
        let parent = try descent.item()
        do throws(Errno) {
          try parent.descriptor.removeFile(name)
        } catch {
          guard error == .isDirectory || error == .notPermitted else { throw error }
          try descent.enterRemoved(name, directory, parent)
        }
      } else {
        descent.leave()
        guard let parent = directory.parent else { continue }
        try parent.item().descriptor.removeDirectory(directory.name)
      }
    }
  }
}

extension TreeDescent<SharedDescriptor, Void> {
  /// Goes down into a directory that is being removed. Its owner may have forbidden even themselves to change it.
  fileprivate mutating func enterRemoved(
    _ name: PathName, _ directory: Directory, _ parent: SharedDescriptor
  ) throws(Errno) {
    let item = SharedDescriptor(try parent.descriptor.open(name, [.path, .directory, .noFollow]))
    let status = try item.descriptor.status()
    guard status.is_mount_root == 0 else { throw .resourceBusy }
    if status.permissions & 0o700 != 0o700 { try? item.descriptor.setModeThroughPath(0o700) }
    let names = try item.descriptor.names()
    enter(try Directory(name, item, (), in: directory), item, names)
  }
}
