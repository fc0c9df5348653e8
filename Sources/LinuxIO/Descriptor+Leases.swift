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

  /// What a lease has come to.
  package var lease: Lease {
    switch linux_get_lease(rawValue) {
    case CInt(F_WRLCK): .exclusive
    case CInt(F_RDLCK): .shared
    default: .none
    }
  }

  /// Lets those in who wait to open the file for reading. Who wants to write goes on waiting.
  package func shareLease() throws(Errno) {
    _ = try check(linux_set_lease(rawValue, CInt(F_RDLCK)))
  }

  /// Gives the lease back.
  package func giveUpLease() throws(Errno) {
    _ = try check(linux_set_lease(rawValue, CInt(F_UNLCK)))
  }
}

/// What a lease may still be.
package enum Lease: Sendable {
  /// Nobody has opened the file, or waits to.
  case exclusive
  /// Somebody reads the file, or waits to open it for reading; nobody for writing.
  case shared
  /// Somebody waits to open it for writing, or the kernel has taken the lease away after `/proc/sys/fs/lease-break-time`.
  case none
}
