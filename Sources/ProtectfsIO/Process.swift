import CProtectfsIO
import ProtectfsLibc
import SystemPackage

/// Calls of a process that concern itself.
package enum Process {
  /// The number of processors online (sysconf(3), `_SC_NPROCESSORS_ONLN`).
  package static var processorCount: Int { sysconf(Int32(_SC_NPROCESSORS_ONLN)) }

  /// The number of processors that the system may ever have; `nil` if their numbers have gaps.
  package static var possibleProcessorCount: Int? {
    guard let list = try? Descriptor.open("/sys/devices/system/cpu/possible", [.readOnly]).readAll(limit: 64) else {
      return nil
    }
    let ends = String(decoding: list, as: UTF8.self).split { $0 == "-" || $0 == "\n" }.map { Int($0) }
    return ends.count <= 2 && ends.first == 0 ? ends.last?.map { $0 + 1 } : nil
  }

  /// The effective user and group, which backing files are created with.
  package static var identity: (user: UInt32, group: UInt32) { (geteuid(), getegid()) }

  /// The permissions that new files do not get; `nil` if the kernel does not say. To ask umask(2) would change them.
  package static var umask: UInt32? {
    let line = PathName("/proc/self/status").lines.first { $0.hasPrefix("Umask:") }
    return line?.split(separator: "\t").last.flatMap { UInt32($0, radix: 8) }
  }

  /// The process's number (getpid(2)).
  package static var number: Int32 { getpid() }

  /// Where a program is found on the path.
  package static func onPath(_ program: String) -> PathName? {
    for directory in (environment("PATH") ?? "/usr/bin:/bin").split(separator: ":") {
      let path = "\(directory)/\(program)"
      if unsafe access(path, X_OK) == 0 { return PathName(path) }
    }
    return nil
  }

  /// What is done with a file: the bits of access(2).
  package enum Access: CInt {
    case read = 4
    case readAndWrite = 6
    /// To create files in a directory.
    case create = 3
  }

  /// Checks that this user may use a file so, by its mode (access(2)).
  ///
  /// - Throws: why not: `ENOENT` where there is none.
  package static func requireAccess(to path: String, _ access: Access) throws(Errno) {
    try call("access", unsafe ProtectfsLibc.access(path, access.rawValue))
  }

  /// Gives two signals their default actions, whatever the process has inherited: a closed pipe ends it, as a filter is
  /// to end (SIGPIPE), and the kernel keeps how its children have ended until they are waited for (SIGCHLD).
  package static func resetInheritedSignals() {
    signal(SIGPIPE, SIG_DFL)
    signal(SIGCHLD, SIG_DFL)
  }

  /// Makes a directory (mkdir(2)).
  package static func makeDirectory(_ path: String, mode: UInt32) throws(Errno) {
    try call("mkdir", unsafe mkdir(path, mode))
  }

  /// An environment variable (getenv(3)).
  package static func environment(_ name: String) -> String? {
    unsafe getenv(name).map { unsafe String(cString: $0) }
  }

  /// The user's home directory, even if a service manager has not set the variable, or mount(8) has removed it
  /// (getpwuid(3)).
  package static var homeDirectory: String {
    if let variable = environment("HOME"), !variable.isEmpty { return variable }
    guard let entry = unsafe getpwuid(geteuid()), let directory = unsafe entry.pointee.pw_dir else { return "/" }
    return unsafe String(cString: directory)
  }

  /// What the password database calls this user; `nil` if it knows none (getpwuid(3)).
  package static var userName: String? {
    guard let entry = unsafe getpwuid(geteuid()), let name = unsafe entry.pointee.pw_name else { return nil }
    return unsafe String(cString: name)
  }

  /// Ends the process at once: nothing is written out or put away (_exit(2)), but a terminal shows again what is typed.
  package static func exitAtOnce(_ status: Int32) -> Never {
    linux_show_typing_at_end()
    _exit(status)
  }

  /// Ends the process after what was printed is written out (exit(3)).
  package static func exit(_ status: Int32) -> Never { ProtectfsLibc.exit(status) }

  /// Makes the root the working directory, so that the process keeps no mount busy (chdir(2)).
  package static func enterRoot() throws(Errno) {
    try call("chdir", unsafe chdir("/"))
  }

  /// The maximum number of open descriptors (getrlimit(2), `RLIMIT_NOFILE`).
  package static var openFileLimit: UInt64 {
    var limit = rlimit()
    return unsafe getrlimit(LibraryConstant.openFiles, &limit) == 0 ? UInt64(limit.rlim_cur) : 1024
  }

  /// The number of descriptors at the end of the range that callers may not keep open. Without any left, a daemon could
  /// neither accept a connection nor open a file for a moment.
  package static func reservedDescriptors(of limit: UInt64) -> UInt64 { min(1024, limit / 4) }

  /// Raises the descriptor limit as far as permitted: with privileges up to the default of `fs.nr_open`, without them
  /// up to the hard limit. If it cannot be raised, the directory cache is sized by the existing one.
  package static func raiseOpenFileLimit() { raise(LibraryConstant.openFiles, to: 1 << 20) }

  /// Raises the limit of the size of files as far as permitted. It is meant for the files of the user who started this
  /// process; here the files of all others would meet it, behind the limits that they have themselves.
  package static func raiseFileSizeLimit() { raise(LibraryConstant.fileSize, to: .max) }

  /// Raises a limit to `most`, or else as far as anyone may.
  private static func raise(_ resource: LibraryConstant.Resource, to most: rlim_t) {
    var limit = rlimit()
    guard unsafe getrlimit(resource, &limit) == 0 else { return }
    var highest = rlimit(rlim_cur: most, rlim_max: most)
    if limit.rlim_max < most, unsafe setrlimit(resource, &highest) == 0 { return }
    limit.rlim_cur = limit.rlim_max
    _ = unsafe setrlimit(resource, &limit)
  }

  /// Tells the kernel that this process cleans the dirty pages of others, so that it does not have to wait until there
  /// are fewer (prctl(2), `PR_SET_IO_FLUSHER`). Also applies to threads started later.
  package static func cleansPagesOfOthers() {
    // Only root may do so. Without it the kernel limits a mount's dirty pages, which has the same effect.
    _ = linux_set_io_flusher()
  }

  /// Blocks SIGTERM, SIGINT and SIGHUP in this thread and those it starts. Ignores those that are not meant for it, and
  /// SIGXFSZ: a write past the limit of the size of files then fails with `EFBIG`.
  package static func blockEndingSignals() {
    var signals = endingSignals
    unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
    for number in strayingSignals { signal(number, SIG_IGN) }
  }

  /// What ends a process that does not expect it (signal(7)): what writing may cause, and what somebody sends to
  /// processes of a name, or to all of a group.
  private static let strayingSignals: [Int32] =
    [SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT] + Array(34...64)

  /// Waits for SIGTERM, SIGINT or SIGHUP and returns its number.
  package static func waitForEndingSignal() -> Int32 {
    var (signals, number) = (endingSignals, Int32(0))
    unsafe sigwait(&signals, &number)
    return number
  }

  /// The same, for so many seconds; `nil` if none has come by then.
  package static func endingSignal(within seconds: Int) -> Int32? {
    var (signals, time) = (endingSignals, timespec(tv_sec: seconds, tv_nsec: 0))
    let number = unsafe sigtimedwait(&signals, nil, &time)
    return number > 0 ? number : nil
  }

  /// Sends SIGTERM to this process.
  package static func endSelf() { kill(getpid(), SIGTERM) }

  private static var endingSignals: sigset_t {
    var signals = sigset_t()
    unsafe sigemptyset(&signals)
    for number in [SIGTERM, SIGINT, SIGHUP] { unsafe sigaddset(&signals, number) }
    return signals
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

  /// The first two numbers of the kernel's version (uname(2)).
  package static var kernelVersion: (Int, Int) {
    var name = utsname()
    unsafe uname(&name)
    let release = unsafe withUnsafeBytes(of: &name.release) {
      unsafe String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
    }
    let numbers = release.split { !$0.isNumber }.prefix(2).compactMap { Int($0) }
    return (numbers.first ?? 0, numbers.dropFirst().first ?? 0)
  }

  /// The machine's name (uname(2)).
  package static var hostName: String {
    var name = utsname()
    unsafe uname(&name)
    return unsafe withUnsafeBytes(of: &name.nodename) { unsafe String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
  }

  /// Unmounts, as root, what is mounted at a name in a directory (umount2(2)).
  package static func unmount(_ name: PathName, in directory: borrowing Descriptor, isLazy: Bool) throws(Errno) {
    let flags = CInt(UMOUNT_NOFOLLOW) | (isLazy ? CInt(MNT_DETACH) : 0)
    try call("umount2", unsafe umount2("\(PathName(descriptor: directory))/\(name)", flags))
  }

  /// Makes the mount of an open mount point read-only, or writable again (mount(2), `MS_REMOUNT`), after data that
  /// programs have written to it was written back.
  ///
  /// - Throws: `EBUSY` if files are open for writing, `EPERM` for users other than root.
  package static func remount(_ mountPoint: borrowing Descriptor, isReadOnly: Bool) throws(Errno) {
    try mountPoint.open(".", [.readOnly, .directory]).writeFileSystemBack()
    try unsafe check(linux_remount(PathName(descriptor: mountPoint).description, isReadOnly ? 1 : 0))
  }
}
