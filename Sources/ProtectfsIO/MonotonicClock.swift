import Glibc

/// Time since the machine started (clock_gettime(2), `CLOCK_MONOTONIC`).
package enum MonotonicClock {
  package static var nanoseconds: Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }
}
