import KeyManagement
import ProtectfsIO

// A mount that nobody has unlocked for long goes back to the state before the first unlock: as a phone does, which is
// then worth as little to who has it as one that was turned off.
extension LockMachine {
  /// Sets when everything goes, counted from now; `nil`: not at all.
  func goToRest(after period: Duration?, _ state: inout State) {
    state.restsAt = period.map { now() + $0 }
    controller.endOfAvailability = period.map { MonotonicClock.nanosecondsWithSuspension + $0.inNanoseconds }
  }

  /// Has the machine look at the time when everything goes: the body of a thread. The time goes on while the machine is
  /// suspended, and the thread runs right after a resume.
  func watchRest() {
    var last: Int64?
    while let end = nextRest(after: last) {
      // An unlock does not shorten that, and what the next lock sets is later.
      MonotonicClock.sleep(untilWithSuspension: end)
      monitor.update { _ in }
      last = end
    }
  }

  /// Waits until a time other than `last` is set. Returns `nil` when the machine stops.
  private func nextRest(after last: Int64?) -> Int64? {
    monitor.wait { state, _ -> Int64?? in
      if state.isStopping { return .some(nil) }
      guard let end = controller.endOfAvailability, end != last else { return nil }
      return end
    }
  }
}
