import CProtectfsIO
import Glibc
import SystemPackage

// What a process made by fork(2) has of the one it comes from, and lets go.
extension Process {
  /// Closes what the caller's shell or the parent had open, but for the standard streams and one descriptor.
  package static func closeDescriptors(except kept: CInt) {
    guard let directory = try? Descriptor.open("/proc/self/fd", [.readOnly, .directory]) else { return }
    let names = (try? DirectoryNames(directory).all(limit: 65_536)) ?? []
    for name in names {
      if let number = CInt(name.description), number > STDERR_FILENO, number != kept { close(number) }
    }
  }

  /// Lets standard input, output and error stand for `/dev/null`.
  package static func redirectStandardStreams() {
    let null = unsafe open("/dev/null", O_RDWR)
    guard null >= 0 else { return }
    for stream in STDIN_FILENO...STDERR_FILENO { dup2(null, stream) }
    if null > STDERR_FILENO { close(null) }
  }

  /// Lets standard input stand for `/dev/null`.
  package static func forgoInput() {
    let null = unsafe open("/dev/null", O_RDONLY)
    guard null >= 0 else { return }
    dup2(null, STDIN_FILENO)
    if null != STDIN_FILENO { close(null) }
  }

  /// Starts this program anew, as a process of nobody's that nobody has to wait for, in a session of its own. Only while
  /// there is one thread.
  ///
  /// - Parameters:
  ///   - arguments: the program's name first.
  ///   - input: its standard input. Standard output is `/dev/null`, and so is standard error unless it `keepsError`.
  ///   - variables: the names of what it has of the environment.
  package static func startBeside(
    _ arguments: [String], input: borrowing Descriptor, keepsError: Bool, variables: [String]
  ) throws(Errno) {
    let child = try fork()
    guard child == 0 else {
      while waitpid(child, nil, 0) < 0 && errno == EINTR {}
      return
    }
    if (try? fork()) != 0 { _exit(0) }
    // Away from the terminal, whose signals are for the process that starts it.
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
    // By its own path, which gives the process its name.
    if let path = unsafe realpath("/proc/self/exe", nil) {
      _ = unsafe withCStrings(arguments) { arguments in
        unsafe withCStrings(environment) { unsafe execve(path, arguments, $0) }
      }
    }
    _exit(127)
  }

  /// Gives every signal its default action, and blocks none.
  package static func resetSignals() {
    linux_reset_signals()
  }

  /// Has the kernel's memory killer treat the process as any other, where it was to be spared (proc_pid_oom_score_adj(5)).
  package static func forgoSparing() {
    let path = PathName("/proc/self/oom_score_adj")
    let bytes = try? Descriptor.open(path, [.readOnly]).readAll(limit: 32)
    guard bytes?.first == UInt8(ascii: "-") else { return }
    // Without success it is spared, which harms nobody who is not short of memory.
    try? Descriptor.open(path, [.writeOnly]).write(Array("0".utf8))
  }

  /// Names the process, as ps(1) shows it; 15 bytes count (prctl(2), `PR_SET_NAME`).
  package static func setName(_ name: String) {
    _ = unsafe linux_set_thread_name(name)
  }
}
