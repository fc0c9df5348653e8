import ProtectfsClient
import ProtectfsIO
import Synchronization
import SystemPackage
import TreeCopy

/// What a restore has done, or would do.
final class RestoreReport: RestoreObserver {
  /// The summary for programs.
  private struct Summary: Encodable {
    var copied = 0
    var replaced = 0
    var alreadyThere = 0
    var different = 0
    var failed = 0
    var leftOut = 0
    var directories = 0
    var links = 0
    var others = 0
    var bytes: UInt64 = 0
    var isDryRun = false
    var isComplete = false
    /// What is not as in the source.
    var problems: [Problem] = []

    /// How many files are done.
    var files: Int { copied + replaced + alreadyThere + links }
  }

  private struct Problem: Encodable {
    enum Kind: String, Encodable {
      case different, failed, leftOut
    }

    var kind: Kind
    var path: String
    var message: String
  }

  private struct State {
    var summary = Summary()
    /// Why the run ended before its end.
    var ending: CommandFailure?
    /// What there is to do, as soon as that is known.
    var total: TreeTotal?
  }

  private let isJSON: Bool
  private let isDryRun: Bool
  private let mount: MountedFileSystem
  private let progress = ProgressLine()
  private let start = ContinuousClock.now
  private let state = RankedMutex(.commandProgress, State())

  init(to mount: MountedFileSystem, isJSON: Bool, isDryRun: Bool) {
    self.mount = mount
    self.isJSON = isJSON
    self.isDryRun = isDryRun
    state.withLock { $0.summary.isDryRun = isDryRun }
  }

  /// Finds out how much there is to do, where somebody sees that; on a thread of its own.
  func count(_ source: any SourceItem, while isWanted: @escaping @Sendable () -> Bool) {
    guard progress.isShown, !isDryRun else { return }
    // Without it, the line has no total.
    try? Thread(starting: "count") { [self] in
      let total = TreeTotal(of: source, while: isWanted)
      state.withLock { $0.total = total }
    }.detach()
  }

  // MARK: What the run tells

  func copied(_ count: Int) {
    state.withLock { state in
      state.summary.bytes += UInt64(count)
      progress.show(line(state))
    }
  }

  func did(_ deed: RestoreRun.Deed, _ path: @autoclosure () -> String) {
    state.withLock { state in
      switch deed {
      case .copied: state.summary.copied += 1
      case .replaced: state.summary.replaced += 1
      case .directory: state.summary.directories += 1
      case .link: state.summary.links += 1
      case .other: state.summary.others += 1
      }
    }
    if !isDryRun { return copied(0) }
    if !isJSON { print("\(deed.rawValue)\t\(path().printable)") }
  }

  func found() { state.withLock { $0.summary.alreadyThere += 1 } }

  func differs(_ path: String) {
    tell(.different, path, "\(path.printable) is there and different; it was left alone, '--overwrite' replaces it")
  }

  func leftOut(_ omission: Omission, _ path: String) {
    tell(.leftOut, path, CopyOutcome.sentence(omission, path))
  }

  func failed(_ error: CopyError, _ path: String) -> Bool {
    switch CopyOutcome(error, path, on: mount) {
    case .failed(let failure):
      tell(.failed, path, failure.message)
      return false
    case .stop(let failure):
      state.withLock { if $0.ending == nil { $0.ending = failure } }
      return true
    }
  }

  private func tell(_ kind: Problem.Kind, _ path: String, _ message: String) {
    state.withLock { state in
      switch kind {
      case .different: state.summary.different += 1
      case .failed: state.summary.failed += 1
      case .leftOut: state.summary.leftOut += 1
      }
      if isJSON { state.summary.problems.append(Problem(kind: kind, path: path, message: message)) }
    }
    progress.clear()
    CommandFailure.report(message)
  }

  private func line(_ state: State) -> String {
    let (files, bytes) = (state.summary.files, state.summary.bytes)
    guard let total = state.total else { return "\(files.files), \(bytes.bytes)" }
    let rest = total.timeLeft(after: files, bytes, in: .now - start).map { ", \(($0 / .seconds(1)).seconds) left" }
    return "\(files) of \(total.files.files), \(bytes.bytes) of \(total.bytes.bytes)\(rest ?? "")"
  }

  // MARK: The end

  /// Says what came of it.
  ///
  /// - Throws: when something was not brought back.
  func finish() throws {
    progress.clear()
    let (summary, ending) = state.withLock { state in
      let summary = state.summary
      state.summary.isComplete =
        state.ending == nil && summary.failed == 0 && summary.different == 0 && summary.leftOut == 0
      return (state.summary, state.ending)
    }
    if isJSON {
      try JSONOutput.showLine(summary)
    } else {
      let verb = isDryRun ? "would be " : ""
      print(
        "\(summary.copied.files) \(verb)copied, \(summary.replaced) \(verb)replaced, "
          + "\(summary.alreadyThere) there already (\(summary.bytes.bytes)).")
    }
    if let ending { throw ending }
    guard !summary.isComplete else { return }
    var reasons: [String] = []
    if summary.failed > 0 { reasons.append("\(summary.failed) could not be restored") }
    if summary.leftOut > 0 { reasons.append("\(summary.leftOut) were left out") }
    if summary.different > 0 { reasons.append("\(summary.different) were left alone") }
    throw CommandFailure(.partial, reasons.joined(separator: ", "))
  }
}
