import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// `mount -o remount,ro` and `remount,rw`: what the kernel lets programs do on a mount changes, and its daemon stays.
/// All other options stay as they are, since mount(8) repeats them.
enum Remount {
  /// - Throws: a sentence for what cannot be remounted.
  static func run(_ path: String, isReadOnly: Bool) throws {
    let canonical = try CanonicalPath.of(path)
    guard let mount = try MountedFileSystem.containing(canonical), mount.mountPoint == canonical else {
      throw CommandFailure(.notMounted, "\(path) is not the mount point of a protectfs mount")
    }
    guard Process.identity.user == 0 else {
      throw CommandFailure(.notPermitted, "only root may remount; unmount \(path) and mount it again")
    }
    if !isReadOnly {
      var daemon = try DaemonConnection(to: mount)
      guard try !daemon.status().isReadOnly else {
        throw CommandFailure(
          .alreadyMounted,
          "\(path) was mounted read-only, beside others perhaps that write; unmount it and mount it again")
      }
    }
    do throws(Errno) {
      // Users may change the names of directories above that are theirs.
      let mountPoint = try Descriptor.open(PathName(canonical), [.path, .directory])
      guard try mount.contains(mountPoint) else { throw .noSuchFileOrDirectory }
      try Process.remount(mountPoint, isReadOnly: isReadOnly)
    } catch .resourceBusy {
      throw CommandFailure(.busy, "files on \(path) are open for writing; close what uses them")
    } catch {
      throw CommandFailure(path, error)
    }
  }
}
