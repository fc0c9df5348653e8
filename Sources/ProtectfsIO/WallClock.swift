import ProtectfsLibc

/// The time of day (time(2)), which may be set back.
package enum WallClock {
  /// Seconds since 1970-01-01 00:00 UTC.
  package static var seconds: UInt64 { UInt64(max(time(nil), 0)) }
}
