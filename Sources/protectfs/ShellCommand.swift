import Cryptography
import Glibc
import SystemPackage

/// A command of the user's that prints a passcode.
enum ShellCommand {
  /// Runs a command with sh(1) and returns what it prints.
  static func output(of command: String) throws(CommandFailure) -> SecretBytes {
    var ends: (CInt, CInt) = (-1, -1)
    let result = unsafe withUnsafeMutablePointer(to: &ends) { pointer in
      unsafe pointer.withMemoryRebound(to: CInt.self, capacity: 2) { unsafe pipe($0) }
    }
    guard result == 0 else { throw CommandFailure("pipe", Errno(rawValue: errno)) }
    _ = fcntl(ends.0, F_SETFD, FD_CLOEXEC)
    let child = spawn(command, output: ends.1)
    close(ends.1)
    defer { close(ends.0) }
    guard let child else { throw CommandFailure(.failure, "/bin/sh could not be started") }
    let secret = try SecretSource.readToEnd(ends.0, "the output of '\(command)'")
    var status: CInt = 0
    while unsafe waitpid(child, &status, 0) < 0 && errno == EINTR {}
    guard status == 0 else { throw CommandFailure(.failure, "'\(command)' failed, so there is no passcode") }
    return secret
  }

  private static func spawn(_ command: String, output: CInt) -> pid_t? {
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    unsafe posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO)
    var arguments: [UnsafeMutablePointer<CChar>?] = unsafe (["sh", "-c", command] as [String]).map { unsafe strdup($0) }
    unsafe arguments.append(nil)
    defer { unsafe arguments.forEach { unsafe free($0) } }
    var child = pid_t()
    let result = unsafe posix_spawn(&child, "/bin/sh", &actions, nil, &arguments, environ)
    return result == 0 ? child : nil
  }
}
