import ProtectfsIO
import Synchronization
import SystemPackage

/// When this host has last asked whether it may still write the store, and was told that it may. Requests wait while
/// that is too long ago. On file systems that serve one host alone, nothing is asked.
package final class StoreHold: Sendable {
  /// For so many nanoseconds an answer holds.
  package static let validity: Int64 = 8_000_000_000

  private let asked = Atomic(Int64.max)
  private let isFailing = Atomic(false)

  /// Notes an answer to a question that was asked then, in nanoseconds of
  /// ``MonotonicClock/nanosecondsWithSuspension``: after a suspension of the machine it is too old.
  package func note(asked time: Int64) {
    isFailing.store(false, ordering: .releasing)
    asked.store(time, ordering: .releasing)
  }

  /// Notes that the question is asked anew, or that it has failed, as requests would.
  package func note(failing: Bool) { isFailing.store(failing, ordering: .releasing) }

  /// Whether the last answer holds.
  package var isValid: Bool {
    let asked = asked.load(ordering: .acquiring)
    return asked == .max || MonotonicClock.nanosecondsWithSuspension <= asked + Self.validity
  }

  /// Waits for an answer that holds.
  ///
  /// - Throws: `EIO` where the question fails.
  func wait() throws(Errno) {
    while !isValid {
      if isFailing.load(ordering: .acquiring) { throw .ioError }
      MonotonicClock.sleep(microseconds: 50_000)
    }
  }
}
