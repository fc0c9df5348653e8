import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// The kernel's table of mounts, with a way to wait until it changes (proc_pid_mounts(5)).
final class MountTable: Sendable {
  private let table = try? SharedDescriptor(Descriptor.open("/proc/self/mounts", [.readOnly]))
  /// Wakes a thread that waits; `nil` if there are no descriptors left: a wait then takes its full time.
  private let signal = try? EventDescriptor()

  /// Waits until something was mounted or unmounted, or a second has passed, since a daemon may also begin to answer
  /// again.
  func waitForChange() {
    let (table, signal) = (table?.descriptor.rawValue ?? -1, signal?.rawValue ?? -1)
    _ = try? Poll.wait(for: .changed(table), .readable(signal), atMost: .seconds(1))
  }

  /// Ends the wait and all later waits.
  func wakeUp() {
    signal?.raise()
  }
}
