import CProtectfsIO
import Glibc
import SystemPackage

/// Calls of a process that concern itself.
package enum Process {
  /// The number of processors online (sysconf(3), `_SC_NPROCESSORS_ONLN`).
  package static var processorCount: Int { sysconf(Int32(_SC_NPROCESSORS_ONLN)) }

  /// The effective user and group, which backing files are created with.
  package static var identity: (user: UInt32, group: UInt32) { (geteuid(), getegid()) }

  /// The process's number (getpid(2)).
  package static var number: Int32 { getpid() }

  /// Whether a program is found on the path.
  package static func isOnPath(_ program: String) -> Bool {
    (environment("PATH") ?? "/usr/bin:/bin").split(separator: ":").contains {
      unsafe access("\($0)/\(program)", X_OK) == 0
    }
  }

  /// Whether this user may read and write a file, by its mode (access(2)).
  ///
  /// - Throws: why not: `ENOENT` where there is none.
  package static func requireAccess(to path: String) throws(Errno) {
    guard unsafe access(path, R_OK | W_OK) == 0 else { throw Errno(rawValue: errno) }
  }

  /// Lets a closed pipe end the process, as a filter is to end (SIGPIPE).
  package static func endsOnClosedPipe() { signal(SIGPIPE, SIG_DFL) }

  /// Makes a directory (mkdir(2)).
  package static func makeDirectory(_ path: String, mode: UInt32) throws(Errno) {
    guard unsafe mkdir(path, mode) == 0 else { throw Errno(rawValue: errno) }
  }

  /// An environment variable (getenv(3)).
  package static func environment(_ name: String) -> String? {
    unsafe getenv(name).map { unsafe String(cString: $0) }
  }

  /// The user's home directory, even if a service manager has not set the variable (getpwuid(3)).
  package static var homeDirectory: String {
    if let variable = environment("HOME") { return variable }
    guard let entry = unsafe getpwuid(geteuid()), let directory = unsafe entry.pointee.pw_dir else { return "/" }
    return unsafe String(cString: directory)
  }

  /// Ends the process at once: nothing is written out or put away (_exit(2)).
  package static func exitAtOnce(_ status: Int32) -> Never { _exit(status) }

  /// Makes the root the working directory, so that the process keeps no mount busy (chdir(2)).
  package static func enterRoot() throws(Errno) {
    guard unsafe chdir("/") == 0 else { throw Errno(rawValue: errno) }
  }

  /// The maximum number of open descriptors (getrlimit(2), `RLIMIT_NOFILE`).
  package static var openFileLimit: UInt64 {
    var limit = rlimit()
    guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
    return UInt64(limit.rlim_cur)
  }

  /// The number of descriptors at the end of the range that callers may not keep open. Without any left, a daemon could
  /// neither accept a connection nor open a file for a moment.
  package static func reservedDescriptors(of limit: UInt64) -> UInt64 { min(1024, limit / 4) }

  /// Raises the descriptor limit as far as permitted.
  package static func raiseOpenFileLimit() {
    var limit: UInt64 = 0
    // If the limit cannot be raised, the directory cache is sized by the existing one.
    _ = unsafe linux_set_open_file_limit_to_maximum(&limit)
  }

  /// Tells the kernel that this process cleans the dirty pages of others, so that it does not have to wait until there
  /// are fewer (prctl(2), `PR_SET_IO_FLUSHER`). Also applies to threads started later.
  package static func cleansPagesOfOthers() {
    // Only root may do so. Without it the kernel limits a mount's dirty pages, which has the same effect.
    _ = linux_set_io_flusher()
  }

  /// Blocks SIGTERM, SIGINT and SIGHUP in this thread and those it starts, and ignores SIGPIPE.
  package static func blockEndingSignals() {
    linux_block_ending_signals()
  }

  /// Waits for SIGTERM, SIGINT or SIGHUP and returns its number.
  package static func waitForEndingSignal() -> Int32 {
    linux_wait_for_ending_signal()
  }

  /// Re-executes the program with all symbols of its libraries bound, unless that was done (ld.so(8), `LD_BIND_NOW`).
  ///
  /// When a symbol is bound at its first call, the dynamic linker saves the vector registers on the stack, and with
  /// them pieces of data that were last copied or decrypted. These would outlive a lock.
  package static func bindSymbols() {
    let variable = "LD_BIND_NOW"
    guard unsafe getenv(variable) == nil else {
      // The variable is not for programs that this one starts.
      unsafe unsetenv(variable)
      return
    }
    guard unsafe setenv(variable, "1", 1) == 0 else { return }
    // The program's own path gives the process its name. Without /proc this process continues.
    if let path = unsafe realpath("/proc/self/exe", nil) { unsafe execv(path, CommandLine.unsafeArgv) }
    unsafe unsetenv(variable)
  }

  /// Forks the process (fork(2)); returns 0 in the child. Only while there is one thread.
  package static func fork() throws(Errno) -> Int32 {
    try check(linux_fork())
  }

  /// Unmounts as root (umount2(2)). Returns whether the mount is gone.
  package static func unmount(_ path: String, isLazy: Bool) -> Bool {
    unsafe linux_unmount(path, isLazy ? 2 : 0) == 0
  }

  /// Makes a mount read-only, or writable again (mount(2), `MS_REMOUNT`), after data that programs have written to it
  /// was written back.
  ///
  /// - Throws: `EBUSY` if files are open for writing, `EPERM` for users other than root.
  package static func remount(_ path: String, isReadOnly: Bool) throws(Errno) {
    try Descriptor.open(PathName(path), [.readOnly, .directory]).synchronizeFileSystem()
    _ = try unsafe check(linux_remount(path, isReadOnly ? 1 : 0))
  }

  /// Runs a program from the search path and waits for it. Returns its exit status, or −1 if it could not be started.
  package static func run(_ program: String, arguments: [String]) -> Int32 {
    var child = pid_t()
    let failure = unsafe withCStrings([program] + arguments) {
      unsafe posix_spawnp(&child, program, nil, nil, $0, environ)
    }
    guard failure == 0 else { return -1 }
    var status: Int32 = 0
    while unsafe waitpid(child, &status, 0) < 0 {
      if errno != EINTR { return -1 }
    }
    return status & 0x7f == 0 ? (status >> 8) & 0xff : -1
  }
}
