/// What a program saw: `ok`, an extended result code of SQLite, or the signal that ended it.
struct LockOutcome: Equatable, CustomStringConvertible {
  /// Of what it was doing when the lock came; `nil` where that was nothing.
  var underway: String?
  /// While locked; `nil` where it was not tried.
  var reading: String?
  var writing: String?
  /// With the same connection, after the unlock.
  var readingAgain: String
  var writingAgain: String

  init(_ underway: String?, _ reading: String?, _ writing: String?, _ readingAgain: String, _ writingAgain: String) {
    self.underway = underway
    self.reading = reading
    self.writing = writing
    self.readingAgain = readingAgain
    self.writingAgain = writingAgain
  }

  var description: String {
    "(" + [underway, reading, writing, readingAgain, writingAgain].map { $0 ?? "nothing" }.joined(separator: ", ") + ")"
  }
}

extension LockCase {
  private static let ioErrorOfRead = "266"
  private static let ioErrorOfWrite = "778"
  private static let cannotOpen = "14"
  private static let killed = "SIGBUS"

  /// What was measured, with SQLite 3.40: the table of Documentation/DATABASES.md.
  var expected: LockOutcome {
    let (read, write, open, killed) = (Self.ioErrorOfRead, Self.ioErrorOfWrite, Self.cannotOpen, Self.killed)
    return switch (protectionClass, journal, moment) {
    case (_, _, .asleep): LockOutcome(nil, nil, nil, "ok", "ok")

    case (.complete, .wal, .idle): LockOutcome(nil, killed, killed, killed, killed)
    case (.complete, .wal, .transaction): LockOutcome(killed, killed, killed, killed, killed)
    case (.complete, .wal, .checkpoint): LockOutcome(write, killed, killed, killed, killed)

    case (.complete, .exclusive, .idle): LockOutcome(nil, read, write, "ok", "ok")
    case (.complete, .exclusive, .transaction): LockOutcome(write, read, read, "ok", "ok")
    case (.complete, .exclusive, .checkpoint): LockOutcome(write, read, write, "ok", "ok")

    case (.complete, .delete, .idle): LockOutcome(nil, read, read, "ok", "ok")
    case (.complete, .delete, _): LockOutcome(write, open, open, "ok", "ok")

    case (_, _, .idle): LockOutcome(nil, "ok", "ok", "ok", "ok")
    case (_, _, _): LockOutcome("ok", "ok", "ok", "ok", "ok")
    }
  }
}
