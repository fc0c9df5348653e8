import CLinux
import Glibc
import SystemPackage

// Leases: who has one is told before anybody else opens the file (fcntl(2), "Leases").
extension Descriptor {
  /// Takes a write lease, which the kernel grants only while nobody else has the file open. Closing the descriptor gives it
  /// back. Whoever opens the file meanwhile waits, up to the seconds in `/proc/sys/fs/lease-break-time`.
  ///
  /// - Throws: `EAGAIN` when the file is open elsewhere, `EINVAL` where the file system has no leases, `EACCES` when the
  ///   file is another user's.
  package func takeWriteLease() throws(Errno) {
    // What tells that somebody waits would end the process; `holdsWriteLease` asks instead.
    signal(SIGIO, SIG_IGN)
    _ = try check(linux_set_lease(rawValue, CInt(F_WRLCK)))
  }

  /// Whether the lease is there still and nobody waits to open the file.
  package var holdsWriteLease: Bool { linux_get_lease(rawValue) == CInt(F_WRLCK) }
}
