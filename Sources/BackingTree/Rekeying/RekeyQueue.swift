import ProtectfsIO
import SystemPackage

/// The files whose rekeys are pending, as far as they are known: those that wait for their turn, for their keys, or for
/// what has failed to be tried again.
final class RekeyQueue: Sendable {
  /// What is to be done next.
  enum Work {
    case rekey([Node])
    /// More is pending than is known.
    case search
    /// Nothing more for now.
    case rest
    case stop
  }

  private struct State {
    var waiting: [Node] = []
    var inWork = 0
    var withoutKey: [Node] = []
    var failed: [Node] = []
    /// When what has failed is tried again.
    var retriesAt: ContinuousClock.Instant?
    /// There were more than may be known: they are searched for when others are done.
    var isOverfull = false
    var needsSearch = false
    var isSearching = false
    var isSearchIncomplete = false
    var isResting = true
    /// Records of files that are done may not be durable yet.
    var isUnsettled = false
    /// They could not be made so, which is tried again with what has failed.
    var awaitsRetry = false
    var isStopping = false

    var count: Int { waiting.count + inWork + withoutKey.count + failed.count }
  }

  private let monitor = Monitor(State())

  /// How many files are known at once; of more, the tree is searched again.
  static let mostKnown = 65_536
  private static let mostInBatch = 256
  private static let retryInterval = Duration.seconds(30)
  private static let shortRetryInterval = Duration.seconds(1)

  /// Adds a file, whose node is kept from now on. One that is here already is not added.
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

  /// Has the tree searched for more.
  func search() {
    monitor.update { state in
      state.needsSearch = true
      state.isResting = false
    }
  }

  /// Class keys are there again: those that waited for theirs are next.
  func resume() {
    monitor.update { state in
      state.waiting += state.withoutKey + state.failed
      state.withoutKey = []
      state.failed = []
      state.retriesAt = nil
      state.awaitsRetry = false
      if state.isSearchIncomplete { state.needsSearch = true }
      if !state.waiting.isEmpty || state.isUnsettled { state.isResting = false }
    }
  }

  func stop() { monitor.update { $0.isStopping = true } }

  /// Waits for work.
  func next() -> Work {
    monitor.wait { (state, deadline) -> Work? in
      if state.isStopping { return .stop }
      if let time = state.retriesAt {
        if time <= .now {
          state.waiting += state.failed
          state.failed = []
          state.retriesAt = nil
          state.isResting = false
          state.awaitsRetry = false
          if state.isSearchIncomplete { state.needsSearch = true }
        } else {
          deadline = time
        }
      }
      if state.isOverfull, state.count < Self.mostKnown {
        state.isOverfull = false
        state.needsSearch = true
      }
      if state.needsSearch {
        state.needsSearch = false
        state.isSearchIncomplete = false
        state.isSearching = true
        return .search
      }
      if !state.waiting.isEmpty {
        let nodes = Array(state.waiting.prefix(Self.mostInBatch))
        state.waiting.removeFirst(nodes.count)
        state.inWork += nodes.count
        return .rekey(nodes)
      }
      if !state.isResting, !state.awaitsRetry {
        state.isResting = true
        return .rest
      }
      return nil
    }
  }

  /// What has become of files that were given out, each told once.
  enum Outcome {
    case done
    case again
    case withoutKey
    case failed
    /// The same, and nobody may use the file until it is tried again.
    case stranded
  }

  func finish(_ node: Node, _ outcome: Outcome) {
    if case .done = outcome { node.state.withLock { $0.isRekeyKnown = false } }
    monitor.update { state in
      state.inWork -= 1
      switch outcome {
      case .done: state.isUnsettled = true
      // Large files take turns with others.
      case .again: state.waiting.append(node)
      case .withoutKey: state.withoutKey.append(node)
      case .failed, .stranded:
        state.failed.append(node)
        let retry = ContinuousClock.now + (outcome == .stranded ? Self.shortRetryInterval : Self.retryInterval)
        state.retriesAt = min(state.retriesAt ?? retry, retry)
      }
    }
  }

  /// All records are durable and the journal is empty, or not yet: then this is tried again.
  func settle(hasFailed: Bool) {
    monitor.update { state in
      state.isUnsettled = hasFailed
      guard hasFailed else { return }
      state.isResting = false
      state.awaitsRetry = true
      if state.retriesAt == nil { state.retriesAt = .now + Self.retryInterval }
    }
  }

  func endSearch(isComplete: Bool) {
    monitor.update { state in
      state.isSearching = false
      state.isSearchIncomplete = !isComplete
      if !isComplete, state.retriesAt == nil { state.retriesAt = .now + Self.retryInterval }
    }
  }

  var isStopping: Bool { monitor.read(\.isStopping) }

  /// What is pending.
  var status: RekeyStatus {
    monitor.read { state in
      // What is not durable yet counts as one more.
      let isUnsettled = state.isUnsettled && (state.count == 0 || state.awaitsRetry)
      return RekeyStatus(
        pending: state.count + (isUnsettled ? 1 : 0), failed: state.failed.count + (state.awaitsRetry ? 1 : 0),
        withoutKey: state.withoutKey.count,
        isComplete: !state.isOverfull && !state.needsSearch && !state.isSearching && !state.isSearchIncomplete)
    }
  }
}

/// How many files have a rekey pending.
package struct RekeyStatus: Sendable, Equatable {
  /// All that are known.
  package var pending = 0
  /// Those of them that failed, and are tried again later.
  package var failed = 0
  /// Those of them that wait for an unlock.
  package var withoutKey = 0
  /// Whether there are no others.
  package var isComplete = true
}
