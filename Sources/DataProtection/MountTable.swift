import Glibc
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// The kernel's table of mounts, with a way to wait until it changes (proc_pid_mounts(5)).
final class MountTable: Sendable {
  private let table: CInt
  /// Two connected sockets: shutting one down wakes a thread that waits for the other. -1 if there are no descriptors
  /// left; a wait then takes its full time.
  private let signal: CInt
  private let sender: CInt

  init() {
    table = unsafe open("/proc/self/mounts", O_RDONLY | O_CLOEXEC)
    (sender, signal) = (try? LocalSocket.pair()) ?? (-1, -1)
  }

  deinit {
    for descriptor in [table, signal, sender] where descriptor >= 0 { close(descriptor) }
  }

  /// Waits until something was mounted or unmounted, or a second has passed, since a daemon may also begin to answer
  /// again.
  func waitForChange() {
    var entries = [
      pollfd(fd: table, events: Int16(POLLPRI), revents: 0), pollfd(fd: signal, events: Int16(POLLIN), revents: 0),
    ]
    _ = unsafe poll(&entries, 2, 1000)
  }

  /// Ends the wait and all later waits.
  func wakeUp() {
    shutdown(sender, CInt(SHUT_RDWR))
  }
}
