import CProtectfsIO
import Glibc
import SystemPackage

// What a child of fork(2) inherits and drops.
extension Process {
  /// Closes all inherited descriptors but the standard streams and one other.
  package static func closeDescriptors(except kept: CInt) {
    guard let directory = try? Descriptor.open("/proc/self/fd", [.readOnly, .directory]) else { return }
    let names = (try? DirectoryNames(directory).all(limit: 65_536)) ?? []
    for name in names {
      if let number = CInt(name.description), number > STDERR_FILENO, number != kept { close(number) }
    }
  }

  /// Redirects standard input, output and error to `/dev/null`.
  package static func redirectStandardStreams() {
    let null = unsafe open("/dev/null", O_RDWR)
    guard null >= 0 else { return }
    for stream in STDIN_FILENO...STDERR_FILENO { dup2(null, stream) }
    if null > STDERR_FILENO { close(null) }
  }

  /// Redirects standard input to `/dev/null`.
  package static func forgoInput() {
    let null = unsafe open("/dev/null", O_RDONLY)
    guard null >= 0 else { return }
    dup2(null, STDIN_FILENO)
    if null != STDIN_FILENO { close(null) }
  }

  /// Starts this program again as a detached process in a session of its own, which no process has to wait for. Only
  /// while there is one thread.
  ///
  /// - Parameters:
  ///   - arguments: the program's name first.
  ///   - input: its standard input. Standard output is `/dev/null`, and so is standard error unless `keepsError`.
  ///   - variables: the names of the environment variables that it inherits.
  package static func startBeside(
    _ arguments: [String], input: borrowing Descriptor, keepsError: Bool, variables: [String]
  ) throws(Errno) {
    let child = try fork()
    guard child == 0 else {
      while waitpid(child, nil, 0) < 0 && errno == EINTR {}
      return
    }
    if (try? fork()) != 0 { _exit(0) }
    // Detached from the terminal, whose signals are for the starting process.
    setsid()
    resetSignals()
    forgoSparing()
    let null = unsafe open("/dev/null", O_RDWR)
    dup2(input.rawValue, STDIN_FILENO)
    dup2(null, STDOUT_FILENO)
    if !keepsError { dup2(null, STDERR_FILENO) }
    closeDescriptors(except: -1)
    _ = unsafe chdir("/")
    let environment = variables.compactMap { name in self.environment(name).map { "\(name)=\($0)" } }
    // The program's own path gives the process its name.
    if let path = unsafe realpath("/proc/self/exe", nil) {
      _ = unsafe withCStrings(arguments) { arguments in
        unsafe withCStrings(environment) { unsafe execve(path, arguments, $0) }
      }
    }
    _exit(127)
  }

  /// Gives every signal its default action and unblocks all.
  package static func resetSignals() {
    linux_reset_signals()
  }

  /// Makes the kernel's out-of-memory killer treat this process like any other, if it was protected
  /// (proc_pid_oom_score_adj(5)).
  package static func forgoSparing() {
    let path = PathName("/proc/self/oom_score_adj")
    let bytes = try? Descriptor.open(path, [.readOnly]).readAll(limit: 32)
    guard bytes?.first == UInt8(ascii: "-") else { return }
    // If this fails, the process stays protected, which does harm only when memory is short.
    try? Descriptor.open(path, [.writeOnly]).write(Array("0".utf8))
  }

  /// Sets the name of the process in ps(1), up to 15 bytes (prctl(2), `PR_SET_NAME`).
  package static func setName(_ name: String) {
    _ = unsafe linux_set_thread_name(name)
  }
}
