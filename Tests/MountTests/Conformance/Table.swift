import CSystemCalls
import Glibc
import LinuxIO
import Synchronization
import SystemPackage
import Testing

/// Runs rows on the mount and beside its backing directory, and compares.
///
/// A table is run step by step: the first step of each row, then the second. Between them the kernel's clock ticks, so
/// that each time that a call moves is seen to have moved.
final class Table: Sendable {
  private struct Count {
    var steps = 0
    var differences: [String] = []
    var used: Set<Int> = []
  }

  private let name: String
  private let rows: [Row]
  private let count = Mutex(Count())

  init(_ name: String, _ rows: [Row]) {
    self.name = name
    self.rows = rows
  }

  /// Runs the rows in a directory of the mount and in one of the backing file system.
  static func run(_ name: String, _ rows: [Row], in volume: Volume) throws {
    let plain = volume.directory.appending("plain")
    if !plain.exists { try plain.makeDirectory() }
    try volume.mountPoint.setMode(0o755)
    let table = Table(name, rows)
    // A thread of its own: working directory, umask and identity change from call to call.
    let failure = Mutex<Errno?>(nil)
    LinuxIO.Thread(name: "conformance", stackSize: 1 << 22) {
      do throws(Errno) {
        try check(calls_unshare_directory())
        try table.run(plain.appending(name), volume.path(name))
      } catch {
        failure.withLock { $0 = error }
      }
    }.join()
    if let error = failure.withLock({ $0 }) { throw error }
    table.report()
  }

  private func run(_ plain: PathName, _ mounted: PathName) throws(Errno) {
    try plain.makeDirectory()
    try mounted.makeDirectory()
    var places: [(plain: Place, mount: Place)] = []
    for index in rows.indices {
      places.append((try Place(plain.appending("\(index)")), try Place(mounted.appending("\(index)"))))
    }
    for number in 0..<(rows.map { $0.steps.count }.max() ?? 0) {
      Self.waitForTick()
      for (index, row) in rows.enumerated() where number < row.steps.count {
        try run(row, number, places[index].plain, places[index].mount)
      }
    }
    try check(unsafe chdir("/"))
  }

  private func run(_ row: Row, _ number: Int, _ plain: Place, _ mount: Place) throws(Errno) {
    let step = row.steps[number]
    let expected = try plain.run(step)
    let found = try mount.run(step)
    count.withLock { $0.steps += 1 }
    let title = "\(row.name), step \(number + 1), \(step)"
    if let wrong = Self.violation(of: step.expectation, by: expected.error) {
      note("\(title): the backing file system \(wrong)")
    }
    if expected != found { compare(row, title, expected, found) }
    if found.error == expected.error || step.identity.name.isEmpty { return }
    if let wrong = Self.violation(of: step.expectation, by: found.error), expected.error != found.error {
      note("\(title): the mount \(wrong)", row: row.name, mount: found.lines.joined(separator: "\n"))
    }
  }

  private static func violation(of expectation: Step.Expectation, by error: Errno?) -> String? {
    switch (expectation, error) {
    case (.same, _), (.success, nil): nil
    case (.success, let error?): "fails: \(error.debugDescription)"
    case (.failure(let wanted), nil): "succeeds, not \(wanted.debugDescription)"
    case (.failure(let wanted), let error?):
      wanted == error ? nil : "fails with \(error.debugDescription), not \(wanted.debugDescription)"
    }
  }

  private func compare(_ row: Row, _ title: String, _ expected: Place.Outcome, _ found: Place.Outcome) {
    let missing = expected.lines.filter { !found.lines.contains($0) }
    let added = found.lines.filter { !expected.lines.contains($0) }
    let text =
      "\(title)\n" + missing.map { "    backing: \($0)" }.joined(separator: "\n") + "\n"
      + added.map { "    mount:   \($0)" }.joined(separator: "\n")
    note(text, row: row.name, mount: added.joined(separator: "\n"))
  }

  /// Notes a difference, unless an exception names it.
  private func note(_ text: String, row: String = "", mount: String = "") {
    let exception = ConformanceException.all.firstIndex { row.hasPrefix($0.rows) && mount.contains($0.mount) }
    count.withLock { count in
      if let exception, !row.isEmpty { count.used.insert(exception) } else { count.differences.append(text) }
    }
  }

  private func report() {
    let count = count.withLock { $0 }
    print("conformance, \(name): \(rows.count) rows, \(count.steps) steps, \(count.differences.count) differences")
    for difference in count.differences { print(difference) }
    for difference in count.differences.prefix(20) { Issue.record("\(difference)") }
    if count.differences.count > 20 { Issue.record("and \(count.differences.count - 20) more, which are printed") }
    for (index, exception) in ConformanceException.all.enumerated()
    where rows.contains(where: { $0.name.hasPrefix(exception.rows) }) && !count.used.contains(index) {
      Issue.record("no row needs the exception for '\(exception.rows)' any more")
    }
  }

  /// Waits until the clock that stamps files has ticked, and once more.
  private static func waitForTick() {
    func coarse() -> Int {
      var time = timespec()
      unsafe clock_gettime(CLOCK_REALTIME_COARSE, &time)
      return time.tv_sec &* 1_000_000_000 &+ time.tv_nsec
    }
    let start = coarse()
    while coarse() == start { usleep(500) }
  }
}
