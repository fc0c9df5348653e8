import ProtectfsLibc

/// Time since the machine started (clock_gettime(2), `CLOCK_MONOTONIC`).
package enum MonotonicClock {
  package static var nanoseconds: Int64 {
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
