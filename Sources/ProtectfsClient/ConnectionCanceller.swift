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
    do throws(Errno) {
      self.socket = LocalSocket(owning: try Descriptor(duplicating: socket.rawValue).release())
    } catch {
      throw ControlError(.noAnswer, "the connection cannot be cancelled (\(error))")
    }
  }

  /// Ends the connection: a call that waits for it and all later calls fail. The daemon sees that the client is gone.
  public func cancel() {
    socket.shutDown()
  }
}

extension DaemonConnection {
  /// Returns an object that cancels, from another thread, what this connection waits for.
  public func canceller() throws(ControlError) -> ConnectionCanceller {
    try ConnectionCanceller(socket)
  }
}
