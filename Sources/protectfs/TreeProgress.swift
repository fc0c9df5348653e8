import ProtectfsIO
import Synchronization
import SystemPackage
import TreeCopy

/// How far a walk through trees has come, where somebody sees it: of how many, and how long the rest takes.
final class TreeProgress: Sendable {
  private let line: ProgressLine
  private let start = ContinuousClock.now
  private let what: String
  /// How many there are, once that is counted.
  private let total = Atomic(0)
  private let isOver = Atomic(false)

  /// - Parameters:
  ///   - what: what there are so many of, and what is done with them.
  ///   - isShown: whether the line may be shown. It never is without a terminal.
  ///   - count: counts all of them, on a thread of its own, as long as its argument says that this is wanted.
  init(_ what: String, isShown: Bool = true, _ count: @escaping @Sendable (() -> Bool) -> Int) {
    line = ProgressLine(mayBeShown: isShown)
    self.what = what
    guard line.isShown else { return }
    // Without it, the line has no total.
    try? Thread(starting: "count") { [self] in
      total.store(count { !isOver.load(ordering: .relaxed) }, ordering: .relaxed)
    }.detach()
  }

  /// The progress of a walk that looks at files and directories, at the paths and below them.
  convenience init(_ what: String, of paths: [String], isShown: Bool = true) {
    self.init("files and directories \(what)", isShown: isShown) { isWanted in
      paths.reduce(0) { count, path in
        let total = TreeTotal(of: path, while: isWanted)
        return count + 1 + total.files + total.directories
      }
    }
  }

  /// Takes the line away, before something else is said.
  func clear() { line.clear() }

  /// Shows how many are done, and what else there is to say.
  func show(_ done: Int, _ more: String = "") { line.show(text(done, more)) }

  /// How many there were of something in a second, if there are so many now.
  func rate(of count: UInt64) -> UInt64 {
    UInt64(Double(count) / max(1, (ContinuousClock.now - start) / .seconds(1)))
  }

  /// Ends the progress, and leaves a last line where there was one.
  func finish(_ done: Int, _ more: String = "") {
    isOver.store(true, ordering: .relaxed)
    line.finish("\(done) \(what)\(more)")
  }

  /// Ends the progress, and takes the line away.
  func end() {
    isOver.store(true, ordering: .relaxed)
    line.clear()
  }

  /// Counts what a walk comes to, and reports what fails.
  func report(to failures: FailureCount) -> DirectoryTree.Report {
    { [self] path, error in
      if error != nil { clear() }
      failures.count(path, error)
      show(failures.total)
    }
  }

  private func text(_ done: Int, _ more: String) -> String {
    Self.text(done, of: total.load(ordering: .relaxed), what, more, after: .now - start)
  }

  /// - Parameter total: 0 while it is not known. What was made since it was counted shows that it is none.
  static func text(_ done: Int, of total: Int, _ what: String, _ more: String = "", after time: Duration) -> String {
    guard total >= done, total > 0 else { return "\(done) \(what)\(more)" }
    let rest = timeLeft(after: done, of: total, in: time).map { ", \(($0 / .seconds(1)).seconds) left" }
    return "\(done) of \(total) \(what)\(more)\(rest ?? "")"
  }

  /// How long the rest takes, going by how long the first part took; `nil` as long as that is a guess.
  static func timeLeft(after done: Int, of total: Int, in time: Duration) -> Duration? {
    guard time > .seconds(1), done > 0 else { return nil }
    return time * (Double(total - done) / Double(done))
  }
}

extension TreeTotal {
  /// Counts what is in a directory; nothing, where there is none that can be read.
  ///
  /// - Parameter names: those in the directory itself that do not count.
  init(of path: String, without names: Set<PathName> = [], while isWanted: () -> Bool) {
    let directory = try? SharedDescriptor(Descriptor.open(PathName(path), [.path, .directory]))
    if let directory { self.init(of: directory, without: names, while: isWanted) } else { self.init() }
  }
}
