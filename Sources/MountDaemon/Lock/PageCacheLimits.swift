import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// How many of a mount's pages may be dirty. The kernel's limit for FUSE is meant for daemons that it cannot trust;
/// root may raise it (Documentation/ABI/testing/sysfs-class-bdi in the kernel's sources).
///
/// Its limit of the read-ahead, 128 KiB, stays: such requests are decrypted in the processor's cache, and the backing
/// file system reads ahead for itself. 1 MiB was slower by a fifth.
enum PageCacheLimits {
  /// The share of all memory for dirty pages, in percent, that the mount's may take. At FUSE's own 1 % programs that
  /// write are slowed down to what the kernel takes for the daemon's speed before it has measured it. A lock waits for
  /// what is dirty of its classes, so it is not all of it.
  private static let dirtyShare = 10

  /// Raises the limit for a mount. Returns whether it could.
  static func raise(for mountPoint: String) -> Bool {
    do throws(Errno) {
      guard let device = try MountedFileSystem.at(mountPoint)?.device else { return false }
      let file = try Descriptor.open(PathName("/sys/class/bdi/\(device)/max_ratio"), [.writeOnly])
      try file.write(Array("\(dirtyShare)".utf8))
      return true
    } catch {
      return false
    }
  }
}
