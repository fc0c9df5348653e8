import CProtectfsIO
import ProtectfsLibc
import SystemPackage

// What a child of fork(2) inherits and drops.
extension Process {
  /// Closes all inherited descriptors but the standard streams and one other.
  package static func closeDescriptors(except kept: CInt) {
    // The directory is closed by then.
    for name in (try? PathName("/proc/self/fd").names(limit: 65_536)) ?? [] {
      if let number = CInt(name.description), number > STDERR_FILENO, number != kept { close(number) }
    }
  }

  /// Leaves the terminal, whose signals are for the starting process, the working directory, and all inherited
  /// descriptors but the standard streams and one other.
  package static func detach(keeping kept: CInt) {
    setsid()
    leaveFiles(keeping: kept)
  }

  /// Leaves the working directory, and all inherited descriptors but the standard streams and one other.
  package static func leaveFiles(keeping kept: CInt) {
    closeDescriptors(except: kept)
    _ = unsafe chdir("/")
  }

  /// What a terminal sends to the processes that it started, when a key is pressed or when it is gone.
  private static let terminalSignals = [SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGHUP]

  /// Ignores the signals of the terminal until ``leaveTerminal()``; so do programs started meanwhile.
  package static func ignoreTerminal() {
    for number in terminalSignals { signal(number, SIG_IGN) }
  }

  /// Leaves the terminal, whose signals are for the starting process, and drops those that came before. They have their
  /// default actions then.
  package static func leaveTerminal() {
    setsid()
    // Those that are blocked were kept all the same; to ignore them again drops them (sigaction(2)).
    ignoreTerminal()
    for number in terminalSignals { signal(number, SIG_DFL) }
  }

  /// Redirects standard input, output and error to `/dev/null`.
  package static func forgoStreams() { redirect(STDIN_FILENO...STDERR_FILENO) }

  /// Redirects standard input to `/dev/null`.
  package static func forgoInput() { redirect(STDIN_FILENO...STDIN_FILENO) }

  private static func redirect(_ streams: ClosedRange<CInt>) {
    let null = unsafe open("/dev/null", O_RDWR)
    guard null >= 0 else { return }
    for stream in streams { dup2(null, stream) }
    if !streams.contains(null) { close(null) }
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
    let child = try check(linux_fork())
    guard child == 0 else {
      waitForEnd(of: child)
      return
    }
    if linux_fork() != 0 { _exit(0) }
    resetSignals()
    forgoSparing()
    // First, as `input` may be one of the others, where this process was started without them.
    dup2(input.rawValue, STDIN_FILENO)
    redirect(STDOUT_FILENO...(keepsError ? STDOUT_FILENO : STDERR_FILENO))
    detach(keeping: -1)
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
    for number in 1..<NSIG { signal(number, SIG_DFL) }
    var none = sigset_t()
    unsafe sigemptyset(&none)
    unsafe pthread_sigmask(SIG_SETMASK, &none, nil)
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
}
