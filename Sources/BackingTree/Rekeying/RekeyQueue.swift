import ProtectfsIO
import SystemPackage

/// The known files with a pending rekey: files that wait for processing, for their keys, or for a retry after a
/// failure.
final class RekeyQueue: Sendable {
  /// The next work for the engine.
  enum Work {
    case rekey([Node])
    /// Files that were closed become clean.
    case clean
    /// There are pending rekeys that are not known.
    case search
    /// There is nothing else to do for now.
    case rest
    case stop
  }

  private struct State {
    var waiting: [Node] = []
    /// Files that are encrypted anew in part. The engine allows few of these at a time.
    var started: [Node] = []
    /// Whether these were first in the last batch. They alternate with others, so that none waits for a large one.
    var startedWereFirst = false
    var inWork = 0
    var withoutKey: [Node] = []
    var failed: [Node] = []
    /// The time of the next retry of what failed.
    var retriesAt: ContinuousClock.Instant?
    /// There were more files than may be known. The tree is searched for them when others are done.
    var isOverfull = false
    var needsSearch = false
    var isSearching = false
    var isSearchIncomplete = false
    var isResting = true
    /// Records of finished files may not be durable yet.
    var hasUndurableRecords = false
    /// Records could not be made durable. This is retried with what failed.
    var awaitsRetry = false
    /// When files that were closed become clean.
    var cleansAt: ContinuousClock.Instant?
    var isStopping = false

    var count: Int { waiting.count + started.count + inWork + withoutKey.count + failed.count }
  }

  private let monitor = Monitor(.rekeyQueue, State())

  /// The maximum number of files known at once. If there are more, the tree is searched again.
  static let mostKnown = 65_536
  private static let mostInBatch = 256
  private static let retryInterval = Duration.seconds(30)
  private static let shortRetryInterval = Duration.seconds(1)

  /// Adds a file and pins its node. A file that is in the queue already is not added.
  func add(_ node: Node, in nodes: InodeTable) {
    let isFull = monitor.update { state in
      state.isOverfull = state.isOverfull || state.count >= Self.mostKnown
      return state.count >= Self.mostKnown
    }
    guard !isFull else { return }
    let node = nodes.keep(node)
    let isNew = node.state.withLock { state in
      defer { state.isRekeyKnown = true }
      return !state.isRekeyKnown
    }
    guard isNew else { return nodes.forget(node, count: 1) }
    monitor.update { state in
      state.waiting.append(node)
      state.isResting = false
    }
  }

  /// Requests a search of the tree for more.
  func search() {
    monitor.update { state in
      state.needsSearch = true
      state.isResting = false
    }
  }

  /// Queues the files that waited for class keys, and those that failed.
  func resume() {
    monitor.update { state in
      state.waiting += state.withoutKey + state.failed
      state.withoutKey = []
      state.failed = []
      state.retriesAt = nil
      state.awaitsRetry = false
      if state.isSearchIncomplete { state.needsSearch = true }
      if !state.waiting.isEmpty || state.hasUndurableRecords { state.isResting = false }
    }
  }

  /// Has files that were closed become clean at a time.
  func clean(at time: ContinuousClock.Instant) {
    monitor.update { $0.cleansAt = min($0.cleansAt ?? time, time) }
  }

  func stop() { monitor.update { $0.isStopping = true } }

  /// Waits for work.
  func next() -> Work { monitor.wait { state, deadline in Self.next(&state, &deadline) } }

  /// The work that there is now.
  func nextAtOnce() -> Work? {
    monitor.update { state in
      var deadline: ContinuousClock.Instant?
      return Self.next(&state, &deadline)
    }
  }

  private static func next(_ state: inout State, _ deadline: inout ContinuousClock.Instant?) -> Work? {
    if state.isStopping { return .stop }
    if let time = state.cleansAt {
      if time <= MonotonicClock.now {
        state.cleansAt = nil
        return .clean
      }
      deadline = time
    }
    if let time = state.retriesAt {
      if time <= MonotonicClock.now {
        state.waiting += state.failed
        state.failed = []
        state.retriesAt = nil
        state.isResting = false
        state.awaitsRetry = false
        if state.isSearchIncomplete { state.needsSearch = true }
      } else {
        deadline = min(deadline ?? time, time)
      }
    }
    if state.isOverfull, state.count < mostKnown {
      state.isOverfull = false
      state.needsSearch = true
    }
    if state.needsSearch {
      state.needsSearch = false
      state.isSearchIncomplete = false
      state.isSearching = true
      return .search
    }
    if !state.waiting.isEmpty || !state.started.isEmpty {
      let others = Array(state.waiting.prefix(max(mostInBatch - state.started.count, 1)))
      state.startedWereFirst.toggle()
      let nodes = state.startedWereFirst ? state.started + others : others + state.started
      state.waiting.removeFirst(others.count)
      state.started = []
      state.inWork += nodes.count
      return .rekey(nodes)
    }
    if !state.isResting, !state.awaitsRetry {
      state.isResting = true
      return .rest
    }
    return nil
  }

  /// The result for a file that `next` returned. Each is reported once.
  enum Outcome {
    case done
    case again
    /// A part is done.
    case started
    case withoutKey
    case failed
    /// Failed, and the file cannot be used until a retry succeeds.
    case stranded
  }

  func finish(_ node: Node, _ outcome: Outcome) {
    if case .done = outcome { node.state.withLock { $0.isRekeyKnown = false } }
    monitor.update { state in
      state.inWork -= 1
      switch outcome {
      case .done: state.hasUndurableRecords = true
      case .again: state.waiting.append(node)
      case .started: state.started.append(node)
      case .withoutKey: state.withoutKey.append(node)
      case .failed, .stranded:
        state.failed.append(node)
        let retry = MonotonicClock.now + (outcome == .stranded ? Self.shortRetryInterval : Self.retryInterval)
        state.retriesAt = min(state.retriesAt ?? retry, retry)
      }
    }
  }

  /// Reports that all records are durable and the journal is empty or, if `hasFailed`, that this must be retried.
  func recordsAreDurable(hasFailed: Bool) {
    monitor.update { state in
      state.hasUndurableRecords = hasFailed
      guard hasFailed else { return }
      state.isResting = false
      state.awaitsRetry = true
      if state.retriesAt == nil { state.retriesAt = MonotonicClock.now + Self.retryInterval }
    }
  }

  func endSearch(isComplete: Bool) {
    monitor.update { state in
      state.isSearching = false
      state.isSearchIncomplete = !isComplete
      if !isComplete, state.retriesAt == nil { state.retriesAt = MonotonicClock.now + Self.retryInterval }
    }
  }

  var isStopping: Bool { monitor.read(\.isStopping) }

  /// The pending rekeys.
  var status: RekeyStatus {
    monitor.read { state in
      // Records that are not durable yet count as one more.
      let hasUndurableRecords = state.hasUndurableRecords && (state.count == 0 || state.awaitsRetry)
      return RekeyStatus(
        pending: state.count + (hasUndurableRecords ? 1 : 0), failed: state.failed.count + (state.awaitsRetry ? 1 : 0),
        withoutKey: state.withoutKey.count,
        isComplete: !state.isOverfull && !state.needsSearch && !state.isSearching && !state.isSearchIncomplete)
    }
  }
}

/// The number of files with a pending rekey.
package struct RekeyStatus: Sendable, Equatable {
  /// All known files.
  package var pending = 0
  /// Known files that failed and are retried later.
  package var failed = 0
  /// Known files that wait for an unlock.
  package var withoutKey = 0
  /// Whether all pending files are known.
  package var isComplete = true
}
