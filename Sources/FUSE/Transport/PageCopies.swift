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
    let end = MonotonicClock.nanoseconds + Int64(limit / .nanoseconds(1))
    // Twice in a row: for a page that was changed again, the kernel queues the next copy when the first is answered.
    var passes = 0
    while passes < 2, isConnected, MonotonicClock.nanoseconds < end {
      let taken = target.counts.total
      let mark: UInt64
      switch requestMark(by: files) {
      case .queued(let number): mark = number
      // It has copies of none of them.
      case .unknown: return []
      case .refused: mark = .max
      }
      let late = awaitQueued(before: mark, of: files, patience: Int64(patience / .nanoseconds(1)), until: end)
      if !late.isEmpty { return late }
      // While the kernel has as many requests under way as it may, the next wait in a second queue.
      let isSecondEmpty =
        backlog.isEmpty && target.counts.total - taken < Int(target.negotiation.mostBackground) - self.served.count
      passes = mark != .max && isSecondEmpty ? passes + 1 : 0
    }
    return []
  }

  /// Waits for the writes of these files that were queued before a mark. Returns the files of those without an answer.
  private func awaitQueued(
    before mark: UInt64, of files: Set<NodeID>, patience: Int64, until end: Int64
  ) -> Set<NodeID> {
    var (workers, awaited): ([ServedRequest], Set<UInt64>?) = (served, nil)
    var (progress, seen, taken) = (MonotonicClock.nanoseconds, Set<UInt64>(), target.counts.total)
    while isConnected {
      MonotonicClock.sleep(microseconds: 250)
      if awaited == nil, target.marks.isTaken(mark) { workers.removeAll { !$0.mayHaveTaken } }
      let writes = unanswered.map(\.header).filter { $0.isWriteBack && files.contains($0.node) }
      let numbers = Set(writes.map(\.unique))
      if workers.isEmpty, awaited == nil { awaited = numbers }
      if let awaited, awaited.isDisjoint(with: numbers) { return [] }
      let now = MonotonicClock.nanoseconds
      if numbers != seen || awaited == nil && target.counts.total != taken {
        (progress, seen, taken) = (now, numbers, target.counts.total)
      }
      if now - progress >= patience || now >= end {
        return awaited.map { awaited in Set(writes.filter { awaited.contains($0.unique) }.map(\.node)) } ?? files
      }
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
    var message = (fuse_out_header(), fuse_notify_retrieve_out())
    message.0.len = UInt32(MemoryLayout.size(ofValue: message))
    message.0.error = CInt(bitPattern: FUSE_NOTIFY_RETRIEVE.rawValue)
    for file in files {
      let number = target.marks.add()
      message.1.notify_unique = number
      message.1.nodeid = file.rawValue
      let sent = unsafe withUnsafeBytes(of: &message) { bytes in
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

/// Marks in the kernel's queue of requests: when one is taken, so is everything that was queued before it.
///
/// A mark is a request that the daemon has the kernel make, for no bytes of a regular file's pages
/// (`fuse_notify_retrieve()` in fs/fuse/dev.c). It has no answer.
final class QueueMarks: Sendable {
  /// The kernel's own numbers are much lower.
  private static let first: UInt64 = 1 << 62

  private struct State {
    var last = QueueMarks.first
    var queued: Set<UInt64> = []
  }

  private let state = RankedMutex(.backlog, State())

  /// The number of a new mark.
  func add() -> UInt64 {
    state.withLock { state in
      state.last += 2
      state.queued.insert(state.last)
      return state.last
    }
  }

  func remove(_ mark: UInt64) { _ = state.withLock { $0.queued.remove(mark) } }

  /// Notes a request that was taken. Returns whether it is a mark, which is not served.
  func take(_ request: RequestHeader) -> Bool {
    guard request.operation == FUSE_NOTIFY_REPLY, request.unique >= Self.first else { return false }
    remove(request.unique)
    return true
  }

  func isTaken(_ mark: UInt64) -> Bool { mark != .max && state.withLock { !$0.queued.contains(mark) } }
}
