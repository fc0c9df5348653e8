import Glibc
import ProtectfsIO
import SystemPackage

/// Cancels, from any thread, what a connection waits for. The waiting call throws
/// ``ControlError/Code-swift.enum/noAnswer``.
///
/// ```swift
/// let daemon = try DaemonConnection(mountPoint: path)
/// let canceller = try daemon.canceller()
/// // On another thread: canceller.cancel()
/// try daemon.events { event in … }
/// ```
public final class ConnectionCanceller: Sendable {
  /// A separate descriptor of the connection's socket, so that its number never refers to another file.
  private let socket: LocalSocket

  init(_ socket: borrowing LocalSocket) throws(ControlError) {
    let descriptor = fcntl(socket.rawValue, F_DUPFD_CLOEXEC, 0)
    guard descriptor >= 0 else {
      throw ControlError(.noAnswer, "the connection cannot be cancelled (\(Errno(rawValue: errno)))")
    }
    self.socket = LocalSocket(owning: descriptor)
  }

  /// Ends the connection: a call that waits for it and all later calls fail. The daemon sees that the client is gone.
  public func cancel() {
    shutdown(socket.rawValue, CInt(SHUT_RDWR))
  }
}

extension DaemonConnection {
  /// Returns an object that cancels, from another thread, what this connection waits for.
  public func canceller() throws(ControlError) -> ConnectionCanceller {
    try ConnectionCanceller(socket)
  }
}
