import Glibc
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
  ///   - serve: the daemon; it calls its argument when it is ready.
  ///   - failure: what to tell the parent of an error that `serve` throws.
  /// - Returns: how the child's start ended; `nil` where it said nothing.
  /// - Throws: what `prepare` throws, or fork(2) fails with.
  package static func launch(
    prepare: () throws -> Void, serve: (() -> Void) throws -> Void, failure: (any Error) -> Outcome
  ) throws -> Outcome? {
    let ends = try LocalSocket.pair()
    // Nothing that waits to be printed must be printed by both.
    fflush(nil)
    if try Process.fork() == 0 {
      close(ends.0)
      becomeDaemon(LocalSocket(owning: ends.1), serve, failure)
    }
    close(ends.1)
    let channel = LocalSocket(owning: ends.0)
    try prepare()
    try? channel.send([1])
    return outcome(channel)
  }

  private static func becomeDaemon(
    _ channel: consuming LocalSocket, _ serve: (() -> Void) throws -> Void, _ failure: (any Error) -> Outcome
  ) -> Never {
    setsid()
    Process.closeDescriptors(except: channel.rawValue)
    var signal: [UInt8] = [0]
    // The parent has given up if it says nothing.
    guard (try? channel.receive(into: &signal)) == 1, unsafe chdir("/") == 0 else { _exit(1) }
    var waiting: LocalSocket? = consume channel
    do {
      try serve {
        fflush(nil)
        Process.redirectStandardStreams()
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

  private static func outcome(_ channel: borrowing LocalSocket) -> Outcome? {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while let count = try? channel.receive(into: &chunk), count > 0 { bytes += chunk[..<count] }
    return bytes.first.map { ($0, String(decoding: bytes.dropFirst(), as: UTF8.self)) }
  }
}
