import Glibc
import ProtectfsIO
import SystemPackage

/// Ends, from any thread, what a connection waits for: it then throws ``ControlError/Code-swift.enum/noAnswer``.
///
/// ```swift
/// let daemon = try DaemonConnection(mountPoint: path)
/// let canceller = try daemon.canceller()
/// // On another thread: canceller.cancel()
/// try daemon.events { event in … }
/// ```
public final class ConnectionCanceller: Sendable {
  /// A descriptor of its own on the connection's socket, so that it never stands for another's.
  private let socket: LocalSocket

  init(_ socket: borrowing LocalSocket) throws(ControlError) {
    let descriptor = fcntl(socket.rawValue, F_DUPFD_CLOEXEC, 0)
    guard descriptor >= 0 else {
      throw ControlError(.noAnswer, "the connection cannot be cancelled (\(Errno(rawValue: errno)))")
    }
    self.socket = LocalSocket(owning: descriptor)
  }

  /// Ends the connection: what waits for it now, and whatever is asked of it later, fails. The daemon sees the client go.
  public func cancel() {
    shutdown(socket.rawValue, CInt(SHUT_RDWR))
  }
}

extension DaemonConnection {
  /// A way to end, from another thread, what this connection waits for.
  public func canceller() throws(ControlError) -> ConnectionCanceller {
    try ConnectionCanceller(socket)
  }
}
