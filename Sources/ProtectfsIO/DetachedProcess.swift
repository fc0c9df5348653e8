import ProtectfsLibc
import SystemPackage

/// A child process that becomes a daemon, and the parent that waits until it is ready.
///
/// The child is made before any thread starts and before any secret is in memory: neither would survive fork(2) as it
/// should. It then waits for the parent, which can still ask the user.
package enum DetachedProcess {
  /// How the start of a daemon ended: a status, 0 for success, and a message for people.
  package typealias Outcome = (status: UInt8, message: String)

  /// Forks. The parent runs `prepare`, lets the child go on and waits for it; the child runs `serve` and never returns.
  ///
  /// - Parameters:
  ///   - prepare: what must be done before the child goes on; runs where the terminal is.
  ///   - serve: the daemon; it calls its argument when it is ready. Until then it is in the process group of the
  ///     parent: autofs(5) lets no other process reach the directory that it waits to be mounted on.
  ///   - failure: what to tell the parent of an error that `serve` throws.
  /// - Returns: how the child's start ended; `nil` where it said nothing.
  /// - Throws: what `prepare` throws, or fork(2) fails with.
  package static func launch(
    prepare: () throws -> Void, serve: (() -> Void) throws -> Void, failure: (any Error) -> Outcome
  ) throws -> Outcome? {
    let child = try ForkedProcess { becomeDaemon($0, serve, failure) }
    try prepare()
    try? child.socket.send([1])
    let bytes = (try? child.socket.descriptor.readToEnd()) ?? []
    return bytes.first.map { ($0, String(decoding: bytes.dropFirst(), as: UTF8.self)) }
  }

  private static func becomeDaemon(
    _ channel: consuming LocalSocket, _ serve: (() -> Void) throws -> Void, _ failure: (any Error) -> Outcome
  ) -> Never {
    Process.ignoreTerminal()
    Process.leaveFiles(keeping: channel.rawValue)
    var signal: [UInt8] = [0]
    // The parent has given up if it says nothing.
    guard (try? channel.receive(into: &signal)) == 1 else { _exit(1) }
    var waiting: LocalSocket? = consume channel
    do {
      try serve {
        fflush(nil)
        Process.leaveTerminal()
        Process.forgoStreams()
        // The parent may be gone: the daemon stays.
        try? waiting?.send([0])
        waiting = nil
      }
    } catch {
      let (status, message) = failure(error)
      try? waiting?.send([status] + Array(message.utf8))
      exit(CInt(status))
    }
    exit(0)
  }
}
