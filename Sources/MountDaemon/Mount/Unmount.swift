import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// Takes a mount away: root by umount2(2), others by fusermount3(1).
package enum Unmount {
  /// Unmounts this mount, and nothing else that is at its place by now. A lazy unmount takes the name at once, and the
  /// rest when nobody uses it.
  ///
  /// - Throws: `EBUSY` if it is in use, and for users other than root also if fusermount3(1) fails otherwise; the error
  ///   of starting that.
  package static func run(_ mount: MountedFileSystem, isLazy: Bool) throws(Errno) {
    guard Process.identity.user == 0 else {
      let arguments = isLazy ? ["-u", "-z", "-q", mount.mountPoint] : ["-u", "-q", mount.mountPoint]
      guard try ChildProcess.run("fusermount3", arguments) == .exited(0) else { throw .resourceBusy }
      return
    }
    let path = FilePath(mount.mountPoint)
    guard let name = path.lastComponent.map({ PathName($0.string) }) else { throw .invalidArgument }
    // Users may change the names of directories above that are theirs, so that the path leads to another mount. The
    // name of a mount point stays.
    let parent = try Descriptor.open(PathName(path.removingLastComponent().string), [.path, .directory])
    guard try mount.contains(parent.open(name, [.path, .noFollow])) else { throw .noSuchFileOrDirectory }
    try Process.unmount(name, in: parent, isLazy: isLazy)
  }
}
