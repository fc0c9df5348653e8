import ProtectfsIO
import SystemPackage

extension MountedFileSystem {
  /// Whether the mount has lost its daemon: the kernel answers for it (`ENOTCONN`).
  package var isDead: Bool {
    do throws(Errno) {
      // Attributes may still be cached; this never is.
      _ = try Descriptor.open(PathName(mountPoint), [.path]).fileSystemStatus()
      return false
    } catch {
      return error.isOfAGoneDaemon
    }
  }

  /// Whether the kernel lets nobody write on the mount (`ST_RDONLY`).
  package var isReadOnly: Bool {
    guard let status = try? Descriptor.open(PathName(mountPoint), [.path]).fileSystemStatus() else { return false }
    return status.f_flag & 1 != 0
  }

  /// Whether less is free than a small file takes.
  package var isFull: Bool {
    guard let status = try? Descriptor.open(PathName(mountPoint), [.path]).fileSystemStatus() else { return false }
    return UInt64(status.f_bavail) * UInt64(status.f_frsize) < 1 << 16
  }

  /// The living mount of a store that may write it.
  package static func writing(_ backing: String) -> MountedFileSystem? {
    all().first { $0.backing == backing && !$0.isDead && !$0.isReadOnly }
  }
}
