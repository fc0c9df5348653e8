import CProtectfsIO
import Glibc
import SystemPackage

// Locks that others who ask for them respect, and that end with the open file, whatever becomes of the process.
extension Descriptor {
  /// Locks the open file, alone or with other readers, and does not wait (flock(2)). Some network file systems keep these
  /// locks to each host.
  ///
  /// - Throws: `EWOULDBLOCK` when another process has it.
  package func lock(isShared: Bool) throws(Errno) {
    _ = try check(linux_flock(rawValue, (isShared ? LOCK_SH : LOCK_EX) | LOCK_NB))
  }

  /// Locks all bytes of the open file, alone or with other readers, and does not wait (fcntl(2), `F_OFD_SETLK`): where a file
  /// system serves several hosts, a lock that counts on all of them.
  ///
  /// - Throws: `EWOULDBLOCK` when another process has it, on any host; other errors where the file system has no such
  ///   locks.
  package func lockBytes(isShared: Bool) throws(Errno) {
    do throws(Errno) {
      _ = try check(linux_lock_all_bytes(rawValue, CInt(isShared ? F_RDLCK : F_WRLCK)))
    } catch {
      // fcntl(2) leaves open which of the two it is.
      throw error == .permissionDenied ? .wouldBlock : error
    }
  }
}
