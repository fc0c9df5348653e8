/// By how much the modification time of a backing file differs from the one that users see, since a rekey.
///
/// The shifted time has nanoseconds that tell the shift, so that a time that was set since is not taken for it, and so
/// that most other files are known by their time not to have a shift.
package struct TimeShift: Sendable, Equatable {
  /// A modification time.
  package struct Time: Sendable, Equatable {
    package var seconds: Int64
    package var nanoseconds: UInt32

    package init(seconds: Int64, nanoseconds: UInt32) {
      self.seconds = seconds
      self.nanoseconds = nanoseconds
    }
  }

  /// The highest number of seconds that a record can store.
  package static let mostSeconds: UInt16 = 1 << 14 - 1
  private static let mark: UInt32 = 787

  /// By how many seconds the backing file's time is later, 1 to ``mostSeconds``. It grows with each rekey.
  package let seconds: UInt16
  /// The nanoseconds that users see, below 10^9.
  package let nanoseconds: UInt32

  package init?(seconds: UInt16, nanoseconds: UInt32) {
    guard 1...Self.mostSeconds ~= seconds, nanoseconds < 1_000_000_000 else { return nil }
    self.seconds = seconds
    self.nanoseconds = nanoseconds
  }

  /// The shift of a file with the shift `last` after another rekey; `nil` if there is none left.
  package init?(after last: TimeShift?, of time: Time) {
    self.init(seconds: (last?.seconds ?? 0) + 1, nanoseconds: time.nanoseconds)
  }

  /// The shift of a file that is given a time from before `birth`, the second in which it was made; the shifted time is
  /// none later. A file with another key has it by chance only. `nil` if the time is no earlier one.
  package init?(of wrappedKey: [UInt8], at time: Time, before birth: Int64) {
    guard time.seconds < birth else { return nil }
    let (age, hasOverflown) = birth.subtractingReportingOverflow(time.seconds)
    let range = hasOverflown ? 8191 : UInt16(min(age, 8191))
    let number = UInt16(wrappedKey[0]) << 8 | UInt16(wrappedKey[1])
    self.init(seconds: 1 + number % range, nanoseconds: time.nanoseconds)
  }

  /// Whether a backing file with this time may have a shift.
  package static func isPossible(at time: Time) -> Bool {
    time.nanoseconds % 1000 == mark && time.nanoseconds / 1000 <= mostSeconds
  }

  /// A time as a shifted one is, to try whether a file system keeps it.
  package static func trial(_ time: Time) -> Time { Time(seconds: time.seconds, nanoseconds: 1000 + mark) }

  private var mark: UInt32 { UInt32(seconds) * 1000 + Self.mark }

  /// What users see of a backing file's time.
  package func shown(_ backing: Time) -> Time {
    let (second, hasOverflown) = backing.seconds.subtractingReportingOverflow(Int64(seconds))
    guard backing.nanoseconds == mark, !hasOverflown else { return backing }
    return Time(seconds: second, nanoseconds: nanoseconds)
  }

  /// The time that a backing file is given for users to see `shown`. One that would be taken for a shifted one is a
  /// nanosecond earlier.
  package func backing(_ shown: Time) -> Time {
    if shown.nanoseconds == mark, mark != nanoseconds { return Time(seconds: shown.seconds, nanoseconds: mark - 1) }
    let (second, hasOverflown) = shown.seconds.addingReportingOverflow(Int64(seconds))
    guard shown.nanoseconds == nanoseconds, !hasOverflown else { return shown }
    return Time(seconds: second, nanoseconds: mark)
  }
}
