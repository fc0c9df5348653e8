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

/// Notices in a ``ForkedProcess`` that the process that forked it was killed, even while calls of some of its threads
/// wait in the kernel: such a process does not end yet, and its descriptors stay open.
package struct ParentWatch {
  private let parent = getppid()
  /// Open as long as the process lives; negative if the system gives none.
  private let descriptor = linux_watch_parent()

  package init() {}

  /// Waits until a socket has something to read, or is closed; returns `false` if the parent was killed before.
  package func wait(for socket: borrowing LocalSocket) -> Bool {
    while let ready = try? Poll.wait(for: .readable(descriptor), .readable(socket.rawValue)) {
      if ready[0], linux_has_parent_ended(descriptor, parent) != 0 { return false }
      if ready[1] { return true }
    }
    return true
  }
}
