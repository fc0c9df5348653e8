import CProtectfsIO
import ProtectfsLibc

/// Settings of the kernel for the memory and threads of this process.
package enum Memory {
  /// Keeps a page-aligned buffer out of core dumps (madvise(2), `MADV_DONTDUMP`).
  package static func keepOutOfCoreDumps(_ buffer: UnsafeMutableRawBufferPointer) {
    // Core dumps are also off for the whole process, so a failure here does no harm.
    _ = unsafe madvise(buffer.baseAddress!, buffer.count, MADV_DONTDUMP)
  }

  /// Overwrites a buffer that contained a secret. The compiler cannot remove this.
  package static func wipe(_ buffer: UnsafeMutableRawBufferPointer) {
    guard let start = buffer.baseAddress else { return }
    unsafe explicit_bzero(start, buffer.count)
  }

  /// Whether two buffers of the same length hold the same (memcmp(3)).
  package static func isEqual(_ first: UnsafeRawBufferPointer, _ second: UnsafeRawBufferPointer) -> Bool {
    unsafe first.isEmpty || memcmp(first.baseAddress!, second.baseAddress!, first.count) == 0
  }

  /// Whether a buffer holds zeros alone.
  package static func isZero(_ buffer: UnsafeRawBufferPointer) -> Bool {
    guard let start = buffer.baseAddress, buffer.count > 1 else { return unsafe buffer.allSatisfy { $0 == 0 } }
    return unsafe buffer[0] == 0 && memcmp(start, start + 1, buffer.count - 1) == 0
  }

  /// Gives the calling thread a umask of its own (unshare(2), `CLONE_FS`).
  package static func giveThreadItsOwnUmask() {
    let result = unshare(0x200)
    precondition(result == 0, "unshare(CLONE_FS) needs no privilege and cannot fail")
  }

  /// Sets the umask of the calling thread (umask(2)).
  package static func setThreadUmask(_ mask: UInt32) {
    _ = umask(mask)
  }

  /// Makes the process's memory unreadable to other processes of its user, and prevents core dumps (prctl(2),
  /// `PR_SET_DUMPABLE`; getrlimit(2), `RLIMIT_CORE`).
  package static func protectProcess() {
    let result = linux_set_not_dumpable()
    precondition(result == 0, "PR_SET_DUMPABLE takes 0 always")
    var none = rlimit(rlim_cur: 0, rlim_max: 0)
    let limited = unsafe setrlimit(LibraryConstant.coreSize, &none)
    precondition(limited == 0, "a limit may be lowered always")
  }
}
