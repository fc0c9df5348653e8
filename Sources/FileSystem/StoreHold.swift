import ProtectfsIO
import Synchronization

/// Until when requests may be served without another question whether this host may still write the store. Without such
/// a time, which only file systems that serve several hosts need, they always may.
package final class StoreHold: Sendable {
  private let end = Atomic(Int64.max)

  /// Sets the time, in nanoseconds of ``MonotonicClock/nanosecondsWithSuspension``: what was paused is late.
  package func goOn(until time: Int64) { end.store(time, ordering: .releasing) }

  /// Waits for a later time, if it is past the last one.
  func wait() {
    guard end.load(ordering: .relaxed) != .max else { return }
    while MonotonicClock.nanosecondsWithSuspension > end.load(ordering: .acquiring) {
      MonotonicClock.sleep(microseconds: 10_000)
    }
  }
}
