import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// The process beside a mount that runs its hooks: `protectfs hooks`, started before there is any secret.
///
/// The daemon can start no program, and must not be what runs scripts. This process has nothing of it but one end of a
/// socket, by which it learns that there is a mount; then it is a client of the daemon's like any other, and ends when
/// the daemon does.
package final class MountHooks: Sendable {
  private let channel: LocalSocket

  /// What is in the environment of `mount` is not for scripts, but for what tells where the sockets are.
  private static let variables = ["HOME", "XDG_RUNTIME_DIR", "TZ"]

  /// Starts the process. To be done before a secret is in memory and while there is one thread.
  ///
  /// - Parameter logFile: where it logs; without one, to the system log, or to standard error where it `keepsError`.
  package init(_ directory: HookDirectory, mountPoint: String, logFile: String?, keepsError: Bool) throws(Errno) {
    let ends = try LocalSocket.pair()
    channel = LocalSocket(owning: ends.0)
    let input = Descriptor(owning: ends.1)
    var arguments = ["protectfs", "hooks", "--beside-mount", "--directory", directory.path]
    if let logFile { arguments += ["--log-file", logFile] } else if !keepsError { arguments.append("--system-log") }
    try Process.startBeside(
      arguments + ["--", mountPoint], input: input, keepsError: keepsError, variables: Self.variables)
  }

  /// There is a mount.
  package func tellMounted() {
    try? channel.send([1])
  }

  /// In that process: waits until there is a mount; false where it did not come to that.
  package static func awaitMount() -> Bool {
    defer { Process.forgoInput() }
    guard let input = try? Descriptor(duplicating: 0) else { return false }
    var byte: [UInt8] = [0]
    return unsafe byte.withUnsafeMutableBytes { unsafe (try? input.readNext(into: $0)) == 1 }
  }
}
