import CProtectfsIO

/// What a process asks of the kernel for its own memory and threads.
package enum Memory {
  /// Keeps a buffer out of core dumps (madvise(2), `MADV_DONTDUMP`). It must start at a page.
  package static func keepOutOfCoreDumps(_ buffer: UnsafeMutableRawBufferPointer) {
    // Core dumps are off for the whole process as well; a kernel that refuses this one loses nothing.
    _ = unsafe linux_keep_out_of_core_dumps(buffer.baseAddress!, buffer.count)
  }

  /// Overwrites a buffer that held a secret; the compiler may not leave it out.
  package static func wipe(_ buffer: UnsafeMutableRawBufferPointer) {
    guard let start = buffer.baseAddress else { return }
    unsafe linux_wipe(start, buffer.count)
  }

  /// Lets the calling thread set a umask that holds for no other (unshare(2), `CLONE_FS`).
  package static func giveThreadItsOwnUmask() {
    let result = linux_unshare_file_system_attributes()
    precondition(result == 0, "unshare(CLONE_FS) needs no privilege and cannot fail")
  }

  /// Sets the umask of the calling thread (umask(2)).
  package static func setThreadUmask(_ mask: UInt32) {
    _ = linux_umask(mask)
  }

  /// Makes the process's memory unreadable to other processes of its user, and leaves no core dump (prctl(2),
  /// `PR_SET_DUMPABLE`; getrlimit(2), `RLIMIT_CORE`).
  package static func protectProcess() {
    let result = linux_set_not_dumpable()
    precondition(result == 0, "PR_SET_DUMPABLE takes 0 always")
    let limited = linux_forbid_core_dumps()
    precondition(limited == 0, "a limit may be lowered always")
  }
}
