import ProtectfsLibc

/// The time of day (time(2)), which may be set back. Tests move it with the other clock (`SimulatedTime`).
package enum WallClock {
  /// Seconds since 1970-01-01 00:00 UTC.
  package static var seconds: UInt64 {
    #if DEBUG
      if let simulated = MonotonicClock.simulated { return simulated.seconds }
    #endif
    return UInt64(max(time(nil), 0))
  }
}
