import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// The kernel's table of mounts, with a way to wait until it changes (proc_pid_mountinfo(5)).
///
/// Its descriptors are opened once, so that the table can be read when the program has none left.
final class MountTable: Sendable {
  private let table = try? SharedDescriptor(Descriptor.open("/proc/self/mountinfo", [.readOnly]))
  /// Wakes the thread that waits; `nil` if there are no descriptors left: a wait then takes its full time.
  private let signal = try? EventDescriptor()

  /// The mounts of protectfs; `nil` if the table cannot be read, which says nothing about the mounts.
  func mounts() -> [MountedFileSystem]? {
    guard let table else { return try? MountedFileSystem.listed() }
    do throws(Errno) {
      _ = try table.descriptor.seek(to: 0, .start)
      return MountedFileSystem.listed(try table.descriptor.readToEnd())
    } catch {
      return nil
    }
  }

  /// Waits until something was mounted or unmounted, ``wakeUp()`` was called, or the time has passed.
  func waitForChange(atMost time: Duration?) {
    let (table, signal) = (table?.descriptor.rawValue ?? -1, signal?.rawValue ?? -1)
    let isBlind = table < 0 || signal < 0
    _ = try? Poll.wait(for: .changed(table), .readable(signal), atMost: isBlind ? .seconds(1) : time)
    self.signal?.clear()
  }

  /// Ends the wait, or the next one.
  func wakeUp() {
    signal?.raise()
  }
}
