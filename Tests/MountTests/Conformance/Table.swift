import CSystemCalls
import Glibc
import ProtectfsIO
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
    var differences: [(row: String, text: String)] = []
    /// Rows that went apart: what follows in them tells nothing more.
    var apart: Set<String> = []
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
    var rows = rows
    var isDisturbed = false
    for attempt in 1...maximumAttempts {
      let before = try evictions()
      try table.runOnThread(rows, plain.appending("\(name).\(attempt)"), volume.path("\(name).\(attempt)"))
      // Some of what a row sees is in the kernel's caches alone. Where something was evicted meanwhile, a difference
      // tells nothing: those rows run once more, which are few and take so much less time.
      if try evictions() == before { break }
      isDisturbed = true
      if attempt == maximumAttempts { break }
      rows = table.takeDifferingRows()
      if rows.isEmpty { break }
    }
    table.report(isDisturbed: isDisturbed)
  }

  /// More than are needed on a machine that is short of memory, or where other tests drop the caches all the time.
  private static let maximumAttempts = 50

  /// How much was evicted from the kernel's caches on this machine, by /proc/sys/vm/drop_caches or for want of memory.
  private static func evictions() throws(Errno) -> [Substring] {
    let text = String(decoding: try OpenFile("/proc/vmstat", O_RDONLY).read(at: 0, count: 1 << 16), as: UTF8.self)
    return text.split(separator: "\n").filter { line in
      ["drop_", "slabs_scanned", "pgsteal_"].contains { line.hasPrefix($0) }
    }
  }

  /// The rows that have gone apart, whose differences are forgotten.
  private func takeDifferingRows() -> [Row] {
    count.withLock { count in
      let differing = rows.filter { count.apart.contains($0.name) }
      count.differences.removeAll { count.apart.contains($0.row) && !$0.row.isEmpty }
      count.apart = []
      return differing
    }
  }

  /// On a thread of its own: working directory, umask and identity change from call to call.
  private func runOnThread(_ rows: [Row], _ plain: PathName, _ mounted: PathName) throws(Errno) {
    let failure = Mutex<Errno?>(nil)
    ProtectfsIO.Thread(name: "conformance", stackSize: 1 << 22) {
      do throws(Errno) {
        try check(calls_unshare_directory())
        try self.run(rows, plain, mounted)
      } catch {
        failure.withLock { $0 = error }
      }
    }.join()
    if let error = failure.withLock({ $0 }) { throw error }
  }

  private func run(_ rows: [Row], _ plain: PathName, _ mounted: PathName) throws(Errno) {
    try plain.makeDirectory()
    try mounted.makeDirectory()
    var places: [(plain: Place, mount: Place)] = []
    for index in rows.indices {
      places.append((try Place(plain.appending("\(index)")), try Place(mounted.appending("\(index)"))))
    }
    for number in 0..<(rows.map { $0.steps.count }.max() ?? 0) {
      Self.waitForTick()
      for (index, row) in rows.enumerated() where number < row.steps.count {
        if count.withLock({ $0.apart.contains(row.name) }) { continue }
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
    let isReading = Self.differsByReading(expected, found, isListing: step.call == CALL_LIST)
    if expected != found, !isReading { compare(row, title, expected, found) }
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

  /// The only difference is that the mount's access times stay where they are; those of directories only where one is
  /// listed.
  private static func differsByReading(
    _ expected: Place.Outcome, _ found: Place.Outcome, isListing: Bool
  ) -> Bool {
    guard expected != found, expected.lines.count == found.lines.count else { return false }
    return zip(expected.lines, found.lines).allSatisfy { expected, found in
      if expected == found { return true }
      // Of directories no size is told.
      guard isListing || expected.contains(" size "), let wanted = expected.range(of: "atime "),
        let got = found.range(of: "atime "),
        let wantedEnd = expected.range(of: " mtime"), let gotEnd = found.range(of: " mtime")
      else { return false }
      let (wantedTime, time) = (
        expected[wanted.upperBound..<wantedEnd.lowerBound], found[got.upperBound..<gotEnd.lowerBound]
      )
      return (wantedTime == "moved to now" || wantedTime == "stays") && !time.hasPrefix("moved")
        && expected[..<wanted.lowerBound] == found[..<got.lowerBound]
        && expected[wantedEnd.lowerBound...] == found[gotEnd.lowerBound...]
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
    let exception = ConformanceException.all.firstIndex { row.contains($0.rows) && mount.contains($0.mount) }
    count.withLock { count in
      if let exception, !row.isEmpty { return _ = count.used.insert(exception) }
      count.differences.append((row, text))
      count.apart.insert(row)
    }
  }

  /// - Parameter isDisturbed: something was evicted meanwhile, so that a difference may be missing that caches make.
  private func report(isDisturbed: Bool) {
    let count = count.withLock { $0 }
    print("conformance, \(name): \(rows.count) rows, \(count.steps) steps, \(count.differences.count) differences")
    for difference in count.differences { print(difference.text) }
    for difference in count.differences.prefix(20) { Issue.record("\(difference.text)") }
    if count.differences.count > 20 { Issue.record("and \(count.differences.count - 20) more, which are printed") }
    if isDisturbed { return }
    for (index, exception) in ConformanceException.all.enumerated()
    where !exception.isRare && rows.contains(where: { $0.name.contains(exception.rows) }) && !count.used.contains(index)
    {
      Issue.record("no row needs the exception for '\(exception.rows)' any more")
    }
  }

  /// Waits until the clock that stamps files is past all stamps that were given. Some of these are finer than its ticks
  /// (`ktime_get_real_ts64_mg` in kernel/time/timekeeping.c), and a late tick may leave it behind them.
  private static func waitForTick() {
    func nanoseconds(_ clock: clockid_t) -> Int {
      var time = timespec()
      unsafe clock_gettime(clock, &time)
      return time.tv_sec &* 1_000_000_000 &+ time.tv_nsec
    }
    let start = nanoseconds(CLOCK_REALTIME)
    while nanoseconds(CLOCK_REALTIME_COARSE) <= start { usleep(500) }
  }
}
