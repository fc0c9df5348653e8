import CProtectfsIO
import Glibc
import SystemPackage

// Advisory locks, which end with the open file, even if the process is killed.
extension Descriptor {
  /// Locks the open file, exclusively or shared with other readers, without waiting (flock(2)). On some network file
  /// systems these locks hold only within a host.
  ///
  /// - Throws: `EWOULDBLOCK` if another process holds the lock.
  package func lock(isShared: Bool) throws(Errno) {
    _ = try check(linux_flock(rawValue, (isShared ? LOCK_SH : LOCK_EX) | LOCK_NB))
  }

  /// Locks all bytes of the open file, exclusively or shared with other readers, without waiting (fcntl(2),
  /// `F_OFD_SETLK`). On file systems that serve several hosts, this lock holds on all of them.
  ///
  /// - Throws: `EWOULDBLOCK` if another process on any host holds the lock; other errors if the file system does not
  ///   support such locks.
  package func lockBytes(isShared: Bool) throws(Errno) {
    do throws(Errno) {
      _ = try check(linux_lock_all_bytes(rawValue, CInt(isShared ? F_RDLCK : F_WRLCK)))
    } catch {
      // fcntl(2) permits either error.
      throw error == .permissionDenied ? .wouldBlock : error
    }
  }
}
