import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import TestVectors

/// A difference between the mount and the model.
struct ModelDifference: Error {
  let text: String
}

/// The daemon was killed during a call.
struct ModelInterruption: Error {}

/// An open descriptor of the model.
struct ModelHandle {
  let number: Int
  let file: OpenFile
  let inode: Int
  let reads: Bool
  let writes: Bool
  /// Opened with O_APPEND: each write goes to the end.
  let appends: Bool
}

struct ModelMapping {
  let number: Int
  let mapping: Mapping
  let inode: Int
}

/// Makes random calls one after another, each on the mount and on the model, and compares the results.
///
/// After fsx (Apple and NeXT, 1991) and fsstress (SGI). Used by one thread at a time.
final class ModelWorker: @unchecked Sendable {
  let stage: ModelStage
  let number: Int
  /// The names of other workers in the root are ignored.
  let isAlone: Bool
  /// Few files with many operations, rather than the other way round.
  let prefersContents: Bool
  var random: RepeatableGenerator
  var tree: ModelTree
  var handles: [ModelHandle] = []
  var mappings: [ModelMapping] = []
  /// The possible trees after a crash: the interrupted call had its effect, or not.
  var candidates: [ModelTree] = []
  var statistics = ModelStatistics()
  private var nextNumber = 0
  private var trace: [String] = []
  /// The number of calls reported after a difference.
  private let traceLength: Int
  /// The possible lock states during the last call.
  private(set) var lastStates: Set<LockState> = []

  init(_ stage: ModelStage, number: Int, of run: ModelRun, _ conditions: ModelRun.Conditions, seed: UInt64) {
    self.stage = stage
    self.number = number
    isAlone = run.workerCount == 1
    prefersContents = conditions.prefersContents
    traceLength = run.traceLength
    random = RepeatableGenerator(seed: seed)
    tree = ModelTree(rootClass: conditions.rootClass)
  }

  // MARK: Paths

  func path(of directory: Int) -> PathName {
    PathName(bytes: Array(stage.volume.mountPoint.bytes) + tree.path(of: directory))
  }

  func path(_ name: ModelName, in directory: Int) -> PathName { path(of: directory).appending(bytes: name) }

  func path(_ place: ModelPlace) -> PathName { path(place.name, in: place.directory) }

  /// A place for the trace, with long names shortened.
  func show(_ name: ModelName, in directory: Int) -> String {
    let names = (tree.path(of: directory) + [UInt8(ascii: "/")] + name).split(separator: UInt8(ascii: "/"))
    return names.map { name in
      let text = String(decoding: name.prefix(12), as: UTF8.self)
      return name.count > 12 ? "\(text)…\(name.count)" : text
    }.joined(separator: "/").debugDescription
  }

  func show(_ place: ModelPlace) -> String { "\(show(place.name, in: place.directory)) (inode \(place.inode))" }

  // MARK: Calls

  func note(_ text: String) {
    statistics.operations += 1
    let time = Self.clock() / 1_000_000 % 1_000_000
    trace.append("\(statistics.operations) at \(time / 1000).\(time % 1000) \(text)")
    if trace.count > traceLength { trace.removeFirst() }
  }

  func difference(_ text: String) -> ModelDifference { ModelDifference(text: text) }

  /// The trace of the last calls, for the report.
  var report: String { trace.joined(separator: "\n") }

  /// Makes a call and compares the result: the error that the model expects in the lock state, or success. Then the
  /// model changes too. Returns whether the call succeeded.
  ///
  /// `mayPass` means that the kernel may answer by itself where the daemon would refuse; `touching` names a file whose
  /// time the kernel moves before it asks; `halfway` is another state that a crash may leave of the call.
  @discardableResult
  func attempt(
    _ kind: String, _ text: String, failing expected: (LockState) -> Errno? = { _ in nil }, mayPass: Bool = false,
    touching inode: Int? = nil, call: () throws -> Void, halfway: ((inout ModelTree) -> Void)? = nil,
    apply: (inout ModelTree) -> Void = { _ in }
  ) throws -> Bool {
    note("\(kind) \(text)")
    let before = stage.sample
    let start = Self.clock(CLOCK_REALTIME_COARSE)
    var failure: Errno?
    do { try call() } catch let error as Errno { failure = error }
    let after = stage.sample
    if let failure { trace[trace.count - 1] += " → \(failure)" }
    tree.now = ModelTime(from: start, to: Self.clock())
    lastStates = ModelStage.states(from: before, to: after)
    if failure != nil, after.isCrashed {
      candidates = [tree]
      // A call that would have failed anyway had no effect.
      if lastStates.contains(where: { expected($0) == nil }) { interrupt(halfway, apply) }
      throw ModelInterruption()
    }
    let allowed = Set(lastStates.map(expected)).union(mayPass ? [nil] : [])
    guard allowed.contains(failure) else {
      throw difference(
        "\(kind) ended with \(Self.show(failure)), expected \(allowed.map(Self.show).sorted().joined(separator: " or "))"
          + " in \(lastStates.map(\.rawValue).sorted())")
    }
    statistics.count(kind, failure)
    if let inode, failure == .permissionDenied { tree.touch(inode) }
    if failure == nil { apply(&tree) }
    return failure == nil
  }

  private func interrupt(_ halfway: ((inout ModelTree) -> Void)?, _ apply: (inout ModelTree) -> Void) {
    var done = tree
    apply(&done)
    candidates.append(done)
    if let halfway {
      var half = tree
      halfway(&half)
      candidates.append(half)
    }
  }

  /// The lock state changed, or the daemon was killed, during the last call, which may have been done in part.
  var wasDisturbed: Bool { lastStates.count > 1 || stage.sample.isCrashed }

  static func show(_ error: Errno?) -> String { error.map { "\($0) (\($0.rawValue))" } ?? "success" }

  /// In nanoseconds. The kernel takes the times of files from the coarse clock, which stands still between two ticks,
  /// for long on some virtual machines.
  static func clock(_ clock: clockid_t = CLOCK_REALTIME) -> Int64 {
    var time = timespec()
    unsafe clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }

  // MARK: Handles

  func addHandle(_ file: OpenFile, _ inode: Int, reads: Bool, writes: Bool, appends: Bool = false) {
    if handles.count >= 10 { handles.remove(at: Int.random(in: 0..<handles.count, using: &random)) }
    nextNumber += 1
    handles.append(
      ModelHandle(number: nextNumber, file: file, inode: inode, reads: reads, writes: writes, appends: appends))
    forgetClosed()
  }

  func addMapping(_ mapping: Mapping, _ inode: Int) {
    if mappings.count >= 3 { mappings.remove(at: Int.random(in: 0..<mappings.count, using: &random)) }
    nextNumber += 1
    mappings.append(ModelMapping(number: nextNumber, mapping: mapping, inode: inode))
    forgetClosed()
  }

  /// Drops files without names that are not open.
  func forgetClosed() {
    tree.forgetNameless(exceptFor: Set(handles.map(\.inode) + mappings.map(\.inode)))
  }

  func closeEverything() {
    handles = []
    mappings = []
    forgetClosed()
  }
}

/// What was done in a run.
struct ModelStatistics {
  var operations = 0
  var comparisons = 0
  private var calls: [String: (done: Int, refused: Int, failed: Int)] = [:]

  mutating func count(_ kind: String, _ failure: Errno?) {
    switch failure {
    case nil: calls[kind, default: (0, 0, 0)].done += 1
    case .permissionDenied, .badAddress: calls[kind, default: (0, 0, 0)].refused += 1
    default: calls[kind, default: (0, 0, 0)].failed += 1
    }
  }

  mutating func add(_ other: ModelStatistics) {
    operations += other.operations
    comparisons += other.comparisons
    calls.merge(other.calls) { ($0.done + $1.done, $0.refused + $1.refused, $0.failed + $1.failed) }
  }

  var description: String {
    let kinds = calls.sorted { $0.key < $1.key }
      .map { "\($0.key) \($0.value.done)/\($0.value.refused)/\($0.value.failed)" }
    return "\(operations) operations, \(comparisons) comparisons; done/refused by class/failed as they should: "
      + kinds.joined(separator: ", ")
  }
}
