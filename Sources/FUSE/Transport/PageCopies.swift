import CFUSE
import Glibc
import ProtectfsIO
import Synchronization

// Before Linux 6.16 the kernel writes copies of pages back, which no invalidation waits for.
extension Session {
  /// Whether the kernel does so (`fuse_writepages_fill()` in fs/fuse/file.c).
  package static let copiesPages: Bool = {
    #if DEBUG
      if unsafe getenv("PROTECTFS_TEST_EARLIER_KERNEL") != nil { return true }
    #endif
    return Process.kernelVersion < (6, 16)
  }()

  /// Waits until the copies of these files' pages that the kernel has queued are written. Not for workers.
  ///
  /// - Parameters:
  ///   - patience: how long it waits for the next of them to be written, or to be taken by a worker.
  ///   - limit: how long it waits in all.
  /// - Returns: the files some of whose copies may not be written.
  package func awaitCopies(of files: Set<NodeID>, patience: Duration, atMost limit: Duration) -> Set<NodeID> {
    guard Self.copiesPages, !files.isEmpty else { return [] }
    var wait = CopyWait(patience: patience, limit: limit)
    // Three in a row: for a page that was changed again, the kernel queues the next copy when the first is answered,
    // which the first pass may not have awaited, but the second has.
    var passes = 0
    while passes < 3 {
      guard isConnected else { return [] }
      if wait.isOver { return files }
      let before = target.counts.total
      switch requestMark(by: files) {
      // The kernel has copies of none of them.
      case .unknown: return []
      case .refused: MonotonicClock.sleep(microseconds: 1000)
      case .queued(let mark):
        guard let length = awaitMark(mark, &wait) else { return isConnected ? files : [] }
        let late = awaitAnswers(of: files, &wait)
        if !late.isEmpty { return late }
        // While the kernel has as many requests under way as it may, the next wait in a second queue.
        let isWhole = length - before + backlog.count < Int(target.negotiation.mostBackground) - served.count
        passes = isWhole ? passes + 1 : 0
      }
    }
    return []
  }

  /// Waits until a mark is taken, and no worker may have taken something before it that is not seen. Returns how many
  /// requests had been taken by then; `nil` if that does not come.
  private func awaitMark(_ mark: UInt64, _ wait: inout CopyWait) -> Int? {
    var (workers, taken): ([ServedRequest], Int?) = (served + [target.reserveRequest], nil)
    while isConnected, !wait.isOver {
      MonotonicClock.sleep(microseconds: 250)
      taken = taken ?? target.marks.taken(mark)
      if let taken {
        workers.removeAll { !$0.mayHaveTaken }
        if workers.isEmpty { return taken }
      }
    }
    target.marks.remove(mark)
    return nil
  }

  /// Waits until those writes of the files have answers that have none now. Returns the files of which one has none.
  private func awaitAnswers(of files: Set<NodeID>, _ wait: inout CopyWait) -> Set<NodeID> {
    func writes() -> [UInt64: NodeID] {
      let all = unanswered.map(\.header).filter { $0.isWriteBack && files.contains($0.node) }
      return Dictionary(all.map { ($0.unique, $0.node) }) { $1 }
    }
    var awaited = writes()
    while !awaited.isEmpty, isConnected {
      MonotonicClock.sleep(microseconds: 250)
      let now = writes()
      let left = awaited.filter { now[$0.key] != nil }
      if left.count < awaited.count { wait.progressed() }
      awaited = left
      if wait.isOver { return Set(awaited.values) }
    }
    return []
  }

  private enum MarkRequest {
    case queued(UInt64)
    /// The kernel knows none of the files.
    case unknown
    case refused
  }

  /// Has the kernel queue a mark.
  private func requestMark(by files: Set<NodeID>) -> MarkRequest {
    for file in files {
      let number = target.marks.add()
      let sent = unsafe EmptyRetrieval.withMessage(number, of: file.rawValue) { bytes in
        unsafe Glibc.write(fuse_session_fd(session), bytes.baseAddress, bytes.count)
      }
      if sent > 0 { return .queued(number) }
      let error = errno
      target.marks.remove(number)
      if error != ENOENT { return .refused }
    }
    return .unknown
  }
}

/// How long copies are waited for.
private struct CopyWait {
  private let patience: Int64
  private let limit: Int64
  private var end: Int64

  init(patience: Duration, limit: Duration) {
    let now = MonotonicClock.nanoseconds
    self.patience = Int64(patience / .nanoseconds(1))
    self.limit = now + Int64(limit / .nanoseconds(1))
    end = now + self.patience
  }

  mutating func progressed() { end = MonotonicClock.nanoseconds + patience }

  var isOver: Bool { MonotonicClock.nanoseconds >= min(end, limit) }
}

/// Marks in the kernel's queue of requests: when one is taken, so is everything that was queued before it.
///
/// A mark is an ``EmptyRetrieval``, and has no answer.
final class QueueMarks: Sendable {
  private struct State {
    var last = EmptyRetrieval.firstNumber
    /// How many requests had been taken when the mark was; `nil` while it is queued.
    var marks: [UInt64: Int?] = [:]
  }

  private let state = RankedMutex(.backlog, State())

  /// The number of a new mark.
  func add() -> UInt64 {
    state.withLock { state in
      state.last += 2
      state.marks[state.last] = .some(nil)
      return state.last
    }
  }

  func remove(_ mark: UInt64) { _ = state.withLock { $0.marks.removeValue(forKey: mark) } }

  /// Notes a request that was taken after so many others. Returns whether it is a mark, which is not served.
  func take(_ request: RequestHeader, after total: @autoclosure () -> Int) -> Bool {
    guard request.operation == FUSE_NOTIFY_REPLY, request.unique >= EmptyRetrieval.firstNumber else { return false }
    let count = total()
    state.withLock { if $0.marks[request.unique] != nil { $0.marks[request.unique] = count } }
    return true
  }

  /// How many requests had been taken when the mark was, which is forgotten with that; `nil` while it is queued.
  func taken(_ mark: UInt64) -> Int? {
    state.withLock { state in
      guard let count = state.marks[mark] ?? nil else { return nil }
      state.marks.removeValue(forKey: mark)
      return count
    }
  }
}
