import CProtectfsIO
import ProtectfsLibc
import SystemPackage

/// A copy of this process that does one thing (fork(2)), and one end of a socket whose other end it has. It is not
/// waited for unless ``waitForEnd()`` is called.
package struct ForkedProcess: ~Copyable, Sendable {
  package let socket: LocalSocket
  private let process: Int32

  /// Forks; only while there is one thread. The child runs `body`.
  package init(_ body: (consuming LocalSocket) -> Never) throws(Errno) {
    let ends = try LocalSocket.pair()
    // Nothing that waits to be printed must be printed by both.
    fflush(nil)
    let result = linux_fork()
    close(result == 0 ? ends.0 : ends.1)
    if result == 0 { body(LocalSocket(owning: ends.1)) }
    let socket = LocalSocket(owning: ends.0)
    process = try check(result)
    self.socket = socket
  }

  /// Closes this end for sending, and waits until the process has ended.
  package func waitForEnd() {
    socket.endSending()
    Process.waitForEnd(of: process)
  }
}
