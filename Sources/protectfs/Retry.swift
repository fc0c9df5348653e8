import SystemBus

/// Tries for something until it is there: again after a second, then less and less often.
struct Retry {
  private static let shortest = Duration.seconds(1)

  private let complaint: String
  private let longest: Duration
  private var pause = Self.shortest
  private var next = ContinuousClock.now
  private var hasFailed = false

  /// - Parameters:
  ///   - complaint: what the first failure in a row is reported with.
  ///   - longest: the longest time between two attempts.
  init(_ complaint: String, longest: Duration) {
    self.complaint = complaint
    self.longest = longest
  }

  /// Does not wait any longer: what kept it from being there may have ended.
  mutating func tryNow() { (next, pause) = (.now, Self.shortest) }

  /// Tries if it is missing and time for that. Returns when it is to be tried again, if it is missing still.
  mutating func attempt(
    while isMissing: Bool, _ body: () throws(BusError) -> Void
  ) -> ContinuousClock.Instant? {
    guard isMissing else { return nil }
    guard next <= .now else { return next }
    do throws(BusError) {
      try body()
      if hasFailed { CommandFailure.report("not so any more: \(complaint)") }
      (hasFailed, pause) = (false, Self.shortest)
      // What is lost as soon as it is there is not tried for without a pause.
      next = .now + pause
      return nil
    } catch {
      if !hasFailed { CommandFailure.report("\(complaint): \(error)") }
      hasFailed = true
      next = .now + pause
      pause = min(pause * 2, longest)
      return next
    }
  }
}
