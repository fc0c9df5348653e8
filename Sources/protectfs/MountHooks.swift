import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The process beside a mount that runs its hooks: `protectfs hooks`, started before there is any secret.
///
/// The daemon can start no program, and must not be what runs scripts. This process has nothing of it but one end of a
/// socket, by which it learns that there is a mount; then it is a client of the daemon's like any other, and ends when
/// the daemon does.
final class MountHooks: Sendable {
  private let channel: LocalSocket

  /// Starts the process. To be done before a secret is in memory and while there is one thread.
  ///
  /// - Parameter logFile: where it logs; without one, to the system log, or to standard error where it `keepsError`.
  init(_ directory: HookDirectory, mountPoint: String, logFile: String?, keepsError: Bool) throws(Errno) {
    let ends = try LocalSocket.pair()
    channel = LocalSocket(owning: ends.0)
    var arguments = ["protectfs", "hooks", "--beside-mount", "--directory", directory.path]
    if let logFile { arguments += ["--log-file", logFile] } else if !keepsError { arguments.append("--system-log") }
    let process = try Process.fork()
    if process == 0 {
      // A child of nobody's who would have to wait for it.
      if (try? Process.fork()) != 0 { _exit(0) }
      Self.execute(arguments + ["--", mountPoint], input: ends.1, keepsError: keepsError)
    }
    close(ends.1)
    while waitpid(process, nil, 0) < 0 && errno == EINTR {}
  }

  /// There is a mount.
  func tellMounted() {
    try? channel.send([1])
  }

  /// What is in the environment of `mount` is not for scripts, but for what tells where the sockets are.
  private static let variables = ["HOME", "XDG_RUNTIME_DIR", "TZ"]

  private static func execute(_ arguments: [String], input: CInt, keepsError: Bool) -> Never {
    // Away from the terminal, whose signals are for the daemon.
    setsid()
    Process.resetSignals()
    Process.forgoSparing()
    let null = unsafe open("/dev/null", O_RDWR)
    dup2(input, STDIN_FILENO)
    dup2(null, STDOUT_FILENO)
    if !keepsError { dup2(null, STDERR_FILENO) }
    Process.closeDescriptors(except: -1)
    _ = unsafe chdir("/")
    var list: [UnsafeMutablePointer<CChar>?] = unsafe arguments.map { unsafe strdup($0) } + [nil]
    var environment: [UnsafeMutablePointer<CChar>?] = unsafe variables.compactMap { name in
      guard let value = unsafe getenv(name) else { return nil }
      return unsafe strdup("\(name)=\(unsafe String(cString: value))")
    }
    unsafe environment.append(nil)
    // By its own path, which gives the process its name.
    if let path = unsafe realpath("/proc/self/exe", nil) { unsafe execve(path, &list, &environment) }
    _exit(127)
  }
}
