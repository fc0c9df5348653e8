import ProtectfsLibc
import SystemPackage

// Advisory locks, which end with the open file, even if the process is killed.
extension Descriptor {
  /// Locks the open file, exclusively or shared with other readers, without waiting (flock(2)). On some network file
  /// systems these locks hold only within a host.
  ///
  /// - Throws: `EWOULDBLOCK` if another process holds the lock.
  package func lock(isShared: Bool) throws(Errno) {
    try call("flock", flock(rawValue, (isShared ? LOCK_SH : LOCK_EX) | LOCK_NB))
  }

  /// Waits for the same lock, exclusively.
  package func lock() throws(Errno) {
    try call("flock", flock(rawValue, LOCK_EX))
  }

  /// Waits for it until a point in time. Returns whether it was acquired.
  package func lock(until deadline: ContinuousClock.Instant) throws(Errno) -> Bool {
    while true {
      do throws(Errno) {
        try lock(isShared: false)
        return true
      } catch {
        guard error == .wouldBlock else { throw error }
        if MonotonicClock.now >= deadline { return false }
        MonotonicClock.sleep(microseconds: 10_000)
      }
    }
  }

  /// Releases that lock.
  package func unlock() {
    // It fails for no descriptor that is open.
    _ = flock(rawValue, LOCK_UN)
  }

  /// Locks all bytes of the open file, exclusively or shared with other readers, without waiting (fcntl(2),
  /// `F_OFD_SETLK`). On file systems that serve several hosts, this lock holds on all of them.
  ///
  /// - Throws: `EWOULDBLOCK` if another process on any host holds the lock; other errors if the file system does not
  ///   support such locks.
  package func lockBytes(isShared: Bool) throws(Errno) {
    var range = ProtectfsLibc.flock()
    range.l_type = Int16(isShared ? F_RDLCK : F_WRLCK)
    do throws(Errno) {
      // `F_OFD_SETLK`, which Glibc's module leaves out
      try call("fcntl", unsafe fcntl(rawValue, 37, &range))
    } catch {
      // fcntl(2) permits either error.
      throw error == .permissionDenied ? .wouldBlock : error
    }
  }

  /// Whether another process has locked bytes of the file in that way, for itself alone. Locks nothing.
  package var isClaimed: Bool {
    get throws(Errno) {
      var range = ProtectfsLibc.flock()
      range.l_type = Int16(F_RDLCK)
      // `F_OFD_GETLK`, which Glibc's module leaves out
      try call("fcntl", unsafe fcntl(rawValue, 36, &range))
      return range.l_type != Int16(F_UNLCK)
    }
  }

  /// Whether another process has locked bytes of the file in that way. Where not, this one has locked them afterwards,
  /// shared.
  package var isLockedByOthers: Bool {
    do throws(Errno) { try lockBytes(isShared: true) } catch { return error == .wouldBlock }
    return false
  }
}
