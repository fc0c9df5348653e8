import ProtectfsLibc

/// Time since the machine started (clock_gettime(2), `CLOCK_MONOTONIC`), and waits for it. What tests move is this
/// clock (`SimulatedTime`), so the modules below the daemon have no other.
package enum MonotonicClock {
  #if DEBUG
    /// What stands for the clock in what the calling thread of a test does; `nil` for the machine's own.
    @TaskLocal package static var simulated: SimulatedTime?
  #endif

  /// An instant, for deadlines.
  package static var now: ContinuousClock.Instant {
    #if DEBUG
      if let simulated { return simulated.now }
    #endif
    return .now
  }

  /// Sleeps for the given time.
  package static func sleep(microseconds: UInt32) {
    #if DEBUG
      if let simulated { return simulated.pass(.microseconds(Int64(microseconds))) }
    #endif
    Thread.sleep(microseconds: microseconds)
  }

  package static var nanoseconds: Int64 {
    #if DEBUG
      if let simulated { return simulated.nanoseconds }
    #endif
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }

  /// The same, with the time that the machine was suspended for (`CLOCK_BOOTTIME`).
  package static var nanosecondsWithSuspension: Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_BOOTTIME, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }

  /// Sleeps until a time of ``nanosecondsWithSuspension``, or a resume after it (clock_nanosleep(2)).
  package static func sleep(untilWithSuspension nanoseconds: Int64) {
    var time = time(nanoseconds)
    while unsafe clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &time, nil) == EINTR {}
  }

  /// The time after so many nanoseconds.
  static func time(after nanoseconds: Int64) -> timespec { time(Self.nanoseconds + nanoseconds) }

  /// A time in the form of the C library.
  static func time(_ nanoseconds: Int64) -> timespec {
    timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
  }
}
