import DataProtectionCore
import Glibc
import LinuxIO
import SystemPackage

/// A process beside the daemon that takes the mount away when the daemon asks: the daemon itself may neither unmount nor
/// start fusermount3(1) once it has given its privileges up.
///
/// It can do nothing else, and for this mount point only. It ends when the daemon does, however that ends: the kernel then
/// closes the daemon's end of the socket between them.
package final class Unmounter: Sendable {
  private let socket: LocalSocket
  private let process: Int32

  /// Starts the process. To be done before a secret is in memory and while there is one thread: neither must be in the
  /// copy.
  package init(mountPoint: String) throws(Errno) {
    let ends = try LocalSocket.pair()
    socket = LocalSocket(owning: ends.0)
    process = try Process.fork()
    if process == 0 { Self.serve(LocalSocket(owning: ends.1), mountPoint) }
    close(ends.1)
  }

  /// Unmounts; returns whether the mount is gone. A lazy unmount takes the name at once, and the rest when nobody uses it.
  func unmount(isLazy: Bool) -> Bool {
    var answer: [UInt8] = [0]
    do throws(Errno) {
      try socket.send([isLazy ? 1 : 0])
      return try socket.receive(into: &answer) == 1 && answer == [1]
    } catch {
      return false
    }
  }

  /// Has the process end, and waits until it has. An answer on its way still comes: it was its unmounting that has the
  /// daemon end.
  func end() {
    shutdown(socket.rawValue, CInt(SHUT_WR))
    while waitpid(process, nil, 0) < 0 && errno == EINTR {}
  }

  // MARK: The process

  private static func serve(_ socket: consuming LocalSocket, _ mountPoint: String) -> Never {
    // Away from the terminal, whose signals are for the daemon; a service manager sends them to every process. So they
    // have no effect.
    setsid()
    Process.resetSignals()
    Process.blockEndingSignals()
    Process.setName("unmounter")
    Process.redirectStandardStreams()
    Process.closeDescriptors(except: socket.rawValue)
    _ = unsafe chdir("/")
    // fusermount3(1) brings its own, so this is for root.
    try? Privileges.keep([.administrate, .readAndSearch])
    var request: [UInt8] = [0]
    while (try? socket.receive(into: &request)) == 1 {
      let isGone = Unmount.run(mountPoint, isLazy: request == [1])
      try? socket.send([isGone ? 1 : 0])
    }
    _exit(0)
  }
}
