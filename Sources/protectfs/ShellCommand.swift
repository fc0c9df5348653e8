import Cryptography
import ProtectfsIO
import SystemPackage

/// A command of the user's that prints a passcode.
enum ShellCommand {
  /// Runs a command with sh(1) and returns what it prints.
  static func output(of command: String) throws(CommandFailure) -> SecretBytes {
    let child: ChildProcess
    do throws(Errno) {
      child = try ChildProcess("/bin/sh", ["-c", command], .inherited)
    } catch {
      throw CommandFailure(.failure, "/bin/sh could not be started")
    }
    let secret = try SecretSource.readToEnd(child.output.descriptor, "the output of '\(command)'")
    guard child.reap() == .exited(0) else {
      throw CommandFailure(.failure, "'\(command)' failed, so there is no passcode")
    }
    return secret
  }
}
