import ProtectfsIO
import Synchronization

/// Why a mount ends that nobody has unmounted: the process was told to end, or has itself found that it must.
package final class MountEnd: Sendable {
  private static let none: Int32 = -1
  // The first reason counts: what fails because the mount ends is none.
  private let reason = Atomic<Int32>(none)

  package init() {}

  /// The status that the process is to end with; 0 unless it ends by ``request(status:)``.
  package var status: Int32 { max(0, reason.load(ordering: .acquiring)) }

  /// Unmounts as a signal does, from a thread of this process.
  package func request(status: Int32) {
    guard decide(status) else { return }
    Process.endSelf()
  }

  /// Waits for a signal, or for a request. Returns the signal's number; `nil` after a request.
  func wait() -> Int32? {
    let number = Process.waitForEndingSignal()
    return decide(0) ? number : nil
  }

  private func decide(_ status: Int32) -> Bool {
    reason.compareExchange(expected: Self.none, desired: status, ordering: .acquiringAndReleasing).exchanged
  }
}
