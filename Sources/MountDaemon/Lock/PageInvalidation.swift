import FUSE
import Logging
import ProtectfsIO
import Synchronization
import SystemPackage

/// Has the kernel write dirty pages of files back and drop all their pages, on threads that may be left behind: an
/// invalidation returns only when the requests for these pages have their answers, which a store that does not answer
/// keeps them from.
final class PageInvalidation: Sendable {
  private struct State {
    var batches: [InvalidationBatch] = []
    var threads = 1
    /// Threads that wait for a batch.
    var idle = 0
    var isStopping = false
  }

  private let state = Monitor(.pageInvalidation, State())
  private let prepare: @Sendable () -> Void
  private let invalidate: @Sendable (NodeID, PathName?) -> Void
  /// How many threads there may be, those left behind among them.
  private static let mostThreads = 32
  /// How many wait for more to do when they have ended what they did.
  private static let mostIdle = 2

  /// The first thread starts at once: later the system may have too many. Each calls `prepare` first.
  init(
    prepare: @escaping @Sendable () -> Void = {}, _ invalidate: @escaping @Sendable (NodeID, PathName?) -> Void
  ) {
    self.prepare = prepare
    self.invalidate = invalidate
    Thread(name: "invalidation") { [self] in run() }.detach()
  }

  /// Whether there are as many threads as there may be, and none waits for more to do.
  var isExhausted: Bool { state.read { $0.threads == Self.mostThreads && $0.idle == 0 } }

  /// Lets the threads end that wait.
  func stop() {
    state.update { $0.isStopping = true }
  }

  /// Begins to drop the pages of files, in that order. `paths` are those of files that may be asked for by a path.
  func begin(_ nodes: [NodeID], paths: [NodeID: PathName] = [:]) -> InvalidationBatch {
    let batch = InvalidationBatch(nodes, paths)
    if !nodes.isEmpty { help(batch) }
    return batch
  }

  /// Has one more thread work on a batch.
  func help(_ batch: InvalidationBatch) {
    let needsThread = state.update { state in
      state.batches.append(batch)
      guard state.idle < state.batches.count, state.threads < Self.mostThreads else { return false }
      state.threads += 1
      return true
    }
    guard needsThread else { return }
    do throws(Errno) {
      try Thread(starting: "invalidation") { [self] in run() }.detach()
    } catch {
      // One that there is takes the batch, when it can.
      state.update { $0.threads -= 1 }
    }
  }

  private func run() {
    prepare()
    state.update { $0.idle += 1 }
    while let batch = next() {
      batch.work(invalidate)
      let stays = state.update { state in
        let stays = state.idle < Self.mostIdle
        if stays { state.idle += 1 } else { state.threads -= 1 }
        return stays
      }
      if !stays { return }
    }
  }

  private func next() -> InvalidationBatch? {
    state.wait { state, _ -> InvalidationBatch?? in
      if !state.batches.isEmpty {
        state.idle -= 1
        return state.batches.removeFirst()
      }
      return state.isStopping ? .some(nil) : nil
    }
  }
}

/// Notifications that the kernel did not take. Threads without the daemon's descriptors cannot log them.
final class InvalidationFailures: Sendable {
  private let last = Atomic<CInt>(0)

  func note(_ error: Errno) { last.store(error.rawValue, ordering: .relaxed) }

  func report(to log: Logger) {
    let error = last.exchange(0, ordering: .relaxed)
    guard error != 0 else { return }
    log.error("the kernel did not take a notification about a file", metadata: ["error": "\(Errno(rawValue: error))"])
  }
}

/// Files whose pages are being dropped, by one thread or by several.
final class InvalidationBatch: Sendable {
  private struct State {
    let nodes: [NodeID]
    /// How many of them were begun.
    var begun = 0
    /// Those that a thread is at, and its clock since it began.
    var running: [NodeID: Thread.ProcessorClock] = [:]
    var completed = 0

    var unfinished: [NodeID] { Array(running.keys) + nodes[begun...] }
    var isDone: Bool { running.isEmpty && begun == nodes.count }
  }

  private let state: RankedMutex<State>
  private let paths: [NodeID: PathName]
  private let end = Semaphore()

  init(_ nodes: [NodeID], _ paths: [NodeID: PathName]) {
    self.paths = paths
    state = RankedMutex(.invalidationBatch, State(nodes: nodes))
    if nodes.isEmpty { end.post() }
  }

  /// How many files are done.
  var completed: Int { state.withLock { $0.completed } }

  /// The time, in milliseconds, for which threads have had a processor for the files that they are at now.
  var processorTime: Int { state.withLock { $0.running.values.reduce(0) { $0 + $1.milliseconds } } }

  /// The files that are not done.
  var unfinished: [NodeID] { state.withLock { $0.unfinished } }

  /// Whether no thread has begun with a file.
  var isUntouched: Bool { state.withLock { $0.begun == 0 } }

  /// Whether files are left that no thread has begun.
  var hasMore: Bool { state.withLock { $0.begun < $0.nodes.count } }

  /// Whether nothing is left to do.
  var isDone: Bool { state.withLock { $0.isDone } }

  /// Waits for so long at most until all are done; returns whether they are.
  func wait(microseconds: Int64) -> Bool { end.wait(microseconds: microseconds) }

  /// Has no more files begun, and returns those that are not done.
  func giveUp() -> [NodeID] {
    state.withLock { state in
      defer { state.begun = state.nodes.count }
      return state.unfinished
    }
  }

  fileprivate func work(_ invalidate: (NodeID, PathName?) -> Void) {
    while let node = begin(Thread.ProcessorClock()) {
      invalidate(node, paths[node])
      complete(node)
    }
  }

  private func begin(_ clock: Thread.ProcessorClock) -> NodeID? {
    state.withLock { state in
      guard state.begun < state.nodes.count else { return nil }
      defer { state.begun += 1 }
      state.running[state.nodes[state.begun]] = clock
      return state.nodes[state.begun]
    }
  }

  private func complete(_ node: NodeID) {
    let isLast = state.withLock { state in
      state.running[node] = nil
      state.completed += 1
      return state.isDone
    }
    if isLast { end.post() }
  }
}
