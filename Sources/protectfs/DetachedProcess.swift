import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// A child process that becomes a daemon, and the parent that waits until it is ready.
///
/// The child is made before any thread starts and before any secret is in memory: neither would survive fork(2) as it
/// should. It then waits for the parent, which can still ask the user.
enum DetachedProcess {
  /// Forks. The parent runs `prepare`, lets the child go on and waits for it; the child runs `serve` and never returns.
  ///
  /// - Parameters:
  ///   - prepare: what must be done before the child goes on; runs where the terminal is.
  ///   - serve: the daemon; it calls its argument when it is ready.
  /// - Throws: what `prepare` throws, or the failure of the child.
  static func launch(prepare: () throws -> Void, serve: (() -> Void) throws -> Void) throws {
    let ends = try LocalSocket.pair()
    // Nothing that waits to be printed must be printed by both.
    fflush(nil)
    if try Process.fork() == 0 {
      close(ends.0)
      becomeDaemon(keeping: ends.1, serve)
    }
    close(ends.1)
    defer { close(ends.0) }
    try prepare()
    _ = unsafe send(ends.0, [1], 1, CInt(MSG_NOSIGNAL))
    try awaitOutcome(ends.0)
  }

  // MARK: The child

  private static func becomeDaemon(keeping channel: CInt, _ serve: (() -> Void) throws -> Void) -> Never {
    setsid()
    Process.closeDescriptors(except: channel)
    var signal: UInt8 = 0
    // The parent has given up if it says nothing.
    guard unsafe recv(channel, &signal, 1, 0) == 1 else { _exit(1) }
    guard unsafe chdir("/") == 0 else { _exit(1) }
    do {
      try serve {
        fflush(nil)
        Process.redirectStandardStreams()
        tell(channel, ExitStatus.success, "")
        close(channel)
      }
    } catch {
      let failure = CommandFailure(error) ?? CommandFailure(.failure, "\(error)")
      tell(channel, failure.status, failure.message)
      exit(failure.status.rawValue)
    }
    exit(ExitStatus.success.rawValue)
  }

  private static func tell(_ channel: CInt, _ status: ExitStatus, _ message: String) {
    let bytes = [UInt8(status.rawValue)] + Array(message.utf8)
    _ = unsafe send(channel, bytes, bytes.count, CInt(MSG_NOSIGNAL))
  }

  // MARK: The parent

  private static func awaitOutcome(_ channel: CInt) throws(CommandFailure) {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = unsafe recv(channel, &chunk, chunk.count, 0)
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { break }
      bytes += chunk[..<count]
    }
    guard let first = bytes.first, let status = ExitStatus(rawValue: Int32(first)) else {
      throw CommandFailure(.failure, "the daemon ended before it was ready; its log says why")
    }
    guard status == .success else {
      throw CommandFailure(status, String(decoding: bytes.dropFirst(), as: UTF8.self))
    }
  }
}
