import ProtectfsIO
import SystemPackage

extension MountedFileSystem {
  /// Whether the mount has lost its daemon: the kernel answers for it (`ENOTCONN`).
  package var isDead: Bool {
    do throws(Errno) {
      // Attributes may still be cached; this never is.
      _ = try fileSystemStatus()
      return false
    } catch {
      return error.isOfAGoneDaemon
    }
  }

  /// Whether the kernel lets nobody write on the mount (`ST_RDONLY`).
  package var isReadOnly: Bool {
    guard let status = try? fileSystemStatus() else { return false }
    return status.f_flag & 1 != 0
  }

  /// Whether less is free than a small file takes.
  package var isFull: Bool {
    guard let status = try? fileSystemStatus() else { return false }
    return UInt64(status.f_bavail) * UInt64(status.f_frsize) < 1 << 16
  }

  /// The status of the file system. That of another user is not waited for without end.
  private func fileSystemStatus() throws(Errno) -> FileSystemStatus {
    let ask = { @Sendable () throws(Errno) in try Descriptor.open(PathName(mountPoint), [.path]).fileSystemStatus() }
    return owner == Process.identity.user ? try ask() : try BoundedCall.result(about: device, ask)
  }

  /// The mounts of the store in a backing directory. Anyone can say of a file system that it is one; only those count
  /// that root, this user or the owner of the directory has mounted.
  package static func mounts(of backing: String) -> [MountedFileSystem] {
    let mounts = all().filter { $0.backing == backing }
    if mounts.isEmpty { return [] }
    let owner = try? Descriptor.open(PathName(backing), [.path]).status().user
    return mounts.filter { $0.isTrusted(by: owner) }
  }

  /// Whether root, this user or the owner of its store has mounted it.
  package func isTrusted(by storeOwner: UInt32?) -> Bool { [0, Process.identity.user, storeOwner].contains(owner) }

  /// The living mount of a store that may write it.
  package static func writing(_ backing: String) -> MountedFileSystem? {
    mounts(of: backing).first { !$0.isDead && !$0.isReadOnly }
  }
}
