#if DEBUG
  import Synchronization

  /// A clock that stands still but for what waits by it: a sleep ends at once, and has moved it on.
  package final class SimulatedTime: Sendable {
    private let start = ContinuousClock.now
    private let timeOfDay: UInt64
    private let elapsed = Atomic<Int64>(0)

    /// - Parameter timeOfDay: the one that it begins with (`WallClock`); by default the machine's.
    package init(timeOfDay: UInt64 = WallClock.seconds) { self.timeOfDay = timeOfDay }

    /// Calls `body`, for which this is the clock, on this thread.
    package func run<Result: ~Copyable, Failure: Error>(
      _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
      var result: Swift.Result<Result, Failure>?
      MonotonicClock.$simulated.withValue(self) {
        result = Swift.Result { () throws(Failure) in try body() }
      }
      return try result.take()!.get()
    }

    /// How much time has passed.
    package var passed: Duration { .nanoseconds(elapsed.load(ordering: .relaxed)) }

    /// Lets time pass.
    package func pass(_ time: Duration) {
      elapsed.add(Int64(time / .nanoseconds(1)), ordering: .relaxed)
    }

    var now: ContinuousClock.Instant { start + passed }

    /// The time of day.
    var seconds: UInt64 { timeOfDay + UInt64(passed.components.seconds) }

    /// A machine that has run for a while.
    var nanoseconds: Int64 { 1_000_000_000_000 + elapsed.load(ordering: .relaxed) }
  }
#endif
