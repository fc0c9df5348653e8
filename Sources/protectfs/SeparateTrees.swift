import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// Finds out that two directories have nothing to do with each other, before one is copied into the other.
enum SeparateTrees {
  /// - Throws: where one is the other or in it, or the source is the ciphertext of the mount that is the target.
  static func require(
    source: SharedDescriptor, _ sourcePath: String, target: SharedDescriptor, _ targetPath: String,
    on mount: MountedFileSystem
  ) throws {
    if try lies(source, in: target) {
      throw CommandFailure(.usage, "\(sourcePath.printable) is in \(targetPath.printable); give another source")
    }
    if try lies(target, in: source) {
      throw CommandFailure(.usage, "\(targetPath.printable) is in \(sourcePath.printable); give another source")
    }
    guard let backing = try? SharedDescriptor(Descriptor.open(PathName(mount.backing), [.path, .directory])) else {
      return
    }
    if try lies(source, in: backing) {
      throw CommandFailure(
        .usage, "\(sourcePath.printable) is the store that is mounted at \(mount.mountPoint.printable); give a copy")
    }
  }

  /// Whether a directory is another or in it, by what they are and not by how they are called.
  private static func lies(_ directory: SharedDescriptor, in other: SharedDescriptor) throws(Errno) -> Bool {
    let wanted = try other.descriptor.status()
    var current = directory
    while true {
      let status = try current.descriptor.status()
      if status.inode == wanted.inode, status.device == wanted.device { return true }
      let parent = SharedDescriptor(try current.descriptor.open("..", [.path, .directory]))
      let above = try parent.descriptor.status()
      if above.inode == status.inode, above.device == status.device { return false }
      current = parent
    }
  }
}
