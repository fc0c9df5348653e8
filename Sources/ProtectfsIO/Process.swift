import CProtectfsIO
import Glibc
import SystemPackage

/// What a process asks of the kernel for itself.
package enum Process {
  /// How many processors are there to run on (sysconf(3), `_SC_NPROCESSORS_ONLN`).
  package static var processorCount: Int { sysconf(Int32(_SC_NPROCESSORS_ONLN)) }

  /// The effective user and group, in whose name the daemon creates backing files.
  package static var identity: (user: UInt32, group: UInt32) { (geteuid(), getegid()) }

  /// A variable of the environment (getenv(3)).
  package static func environment(_ name: String) -> String? {
    unsafe getenv(name).map { unsafe String(cString: $0) }
  }

  /// The user's directory, also where a service manager has set none (getpwuid(3)).
  package static var homeDirectory: String {
    if let variable = environment("HOME") { return variable }
    guard let entry = unsafe getpwuid(geteuid()), let directory = unsafe entry.pointee.pw_dir else { return "/" }
    return unsafe String(cString: directory)
  }

  /// Makes the root the working directory, so that no mount is kept busy (chdir(2)).
  package static func enterRoot() throws(Errno) {
    guard unsafe chdir("/") == 0 else { throw Errno(rawValue: errno) }
  }

  /// How many descriptors may be open (getrlimit(2), `RLIMIT_NOFILE`).
  package static var openFileLimit: UInt64 {
    var limit = rlimit()
    guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
    return UInt64(limit.rlim_cur)
  }

  /// How many of the last descriptors are not for what others keep open: a daemon that has none left could neither accept a
  /// connection nor open what it needs for a moment.
  package static func reservedDescriptors(of limit: UInt64) -> UInt64 { min(1024, limit / 4) }

  /// Raises the limit of descriptors as far as is allowed.
  package static func raiseOpenFileLimit() {
    var limit: UInt64 = 0
    // What cannot be raised is lived with: the directory cache is sized by the limit there is.
    _ = unsafe linux_set_open_file_limit_to_maximum(&limit)
  }

  /// Tells the kernel that it is this process that cleans dirty pages of others: it is then not made to wait until they
  /// are fewer (prctl(2), `PR_SET_IO_FLUSHER`). For threads started afterwards too.
  package static func cleansPagesOfOthers() {
    // Only root may say so. Without it the kernel keeps a mount's dirty pages few, which serves the same.
    _ = linux_set_io_flusher()
  }

  /// Keeps SIGTERM, SIGINT and SIGHUP from this thread and those it starts, and ignores SIGPIPE.
  package static func blockEndingSignals() {
    linux_block_ending_signals()
  }

  /// Waits for SIGTERM, SIGINT or SIGHUP; returns its number.
  package static func waitForEndingSignal() -> Int32 {
    linux_wait_for_ending_signal()
  }

  /// Starts the program again with every symbol of its libraries bound, unless it was (ld.so(8), `LD_BIND_NOW`).
  ///
  /// Where a symbol is bound at its first call, the dynamic linker saves the vector registers on the stack meanwhile,
  /// and with them pieces of what was last copied or decrypted: these would outlive a lock.
  package static func bindSymbols() {
    let variable = "LD_BIND_NOW"
    guard unsafe getenv(variable) == nil else {
      // It is not meant for the programs that this one starts.
      unsafe unsetenv(variable)
      return
    }
    guard unsafe setenv(variable, "1", 1) == 0 else { return }
    // By its own path, which gives the process its name. Without /proc it goes on as it is.
    if let path = unsafe realpath("/proc/self/exe", nil) { unsafe execv(path, CommandLine.unsafeArgv) }
    unsafe unsetenv(variable)
  }

  /// Splits the process in two (fork(2)); 0 in the child. Only while there is one thread.
  package static func fork() throws(Errno) -> Int32 {
    try check(linux_fork())
  }

  /// Starts a program in a session of its own, with nothing to read, that is sent SIGTERM when the calling thread is no
  /// more (prctl(2), `PR_SET_PDEATHSIG`). Only while there is one thread.
  package static func startChild(_ path: String, _ arguments: [String]) throws(Errno) -> Int32 {
    var list: [UnsafeMutablePointer<CChar>?] = unsafe arguments.map { unsafe strdup($0) }
    unsafe list.append(nil)
    defer { unsafe list.forEach { unsafe free($0) } }
    let parent = getpid()
    let child = try fork()
    guard child == 0 else { return child }
    setsid()
    let null = unsafe open("/dev/null", O_RDONLY)
    if null >= 0 { dup2(null, STDIN_FILENO) }
    // The parent may have ended before the kernel knew of the wish.
    guard linux_end_with_parent() == 0, getppid() == parent else { _exit(1) }
    unsafe execv(path, list)
    _exit(127)
  }

  /// Unmounts as root (umount2(2)); returns whether it is gone.
  package static func unmount(_ path: String, isLazy: Bool) -> Bool {
    unsafe linux_unmount(path, isLazy ? 2 : 0) == 0
  }

  /// Makes a mount read-only or writable again (mount(2), `MS_REMOUNT`); what programs have written to it is written back first.
  ///
  /// - Throws: `EBUSY` where files are open for writing, `EPERM` for others than root.
  package static func remount(_ path: String, isReadOnly: Bool) throws(Errno) {
    try Descriptor.open(PathName(path), [.readOnly, .directory]).synchronizeFileSystem()
    _ = try unsafe check(linux_remount(path, isReadOnly ? 1 : 0))
  }

  /// Runs a program found on the path and waits for it; returns its exit status, or −1 when it could not be started.
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
