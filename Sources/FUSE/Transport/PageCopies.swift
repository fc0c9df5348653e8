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
  package func awaitCopies(
    of files: Set<NodeID>, for waiter: QueueMarks.Waiter, patience: Duration, atMost limit: Duration = .seconds(86_400)
  ) -> Set<NodeID> {
    guard Self.copiesPages, let file = files.first else { return [] }
    let start = MonotonicClock.now
    var (progress, requests) = (start, Set<UInt64>())
    // Twice: a worker may have just taken one, or answered one behind which the kernel queues the next of that page.
    for _ in 0..<2 {
      let mark = requestMark(for: waiter, by: file)
      while true {
        MonotonicClock.sleep(microseconds: 250)
        let isTaken = mark.map(target.marks.isTaken) ?? true
        let writes = unanswered.map(\.header).filter { $0.isWriteBack && files.contains($0.node) }
        if isTaken, writes.isEmpty { break }
        let now = MonotonicClock.now
        if requests != Set(writes.map(\.unique)) { (progress, requests) = (now, Set(writes.map(\.unique))) }
        if now >= progress + patience || now >= start + limit { return isTaken ? Set(writes.map(\.node)) : files }
      }
    }
    return []
  }

  /// Has the kernel queue a mark. Returns its number; `nil` if the kernel does not know the file, and so has no copies.
  private func requestMark(for waiter: QueueMarks.Waiter, by file: NodeID) -> UInt64? {
    let number = target.marks.next(for: waiter)
    var message = (fuse_out_header(), fuse_notify_retrieve_out())
    message.0.len = UInt32(MemoryLayout.size(ofValue: message))
    message.0.error = CInt(bitPattern: FUSE_NOTIFY_RETRIEVE.rawValue)
    message.1.notify_unique = number
    message.1.nodeid = file.rawValue
    let sent = unsafe withUnsafeBytes(of: &message) { bytes in
      unsafe Glibc.write(fuse_session_fd(session), bytes.baseAddress, bytes.count) == bytes.count
    }
    return sent ? number : nil
  }
}

/// Marks in the kernel's queue of requests: when one is taken, so is everything that was queued before it.
///
/// A mark is a request that the daemon has the kernel make, for no bytes of a regular file's pages
/// (`fuse_notify_retrieve()` in fs/fuse/dev.c). It has no answer.
package final class QueueMarks: Sendable {
  /// Who waits for marks.
  package enum Waiter: UInt64 {
    case lock, seek, unmount
  }

  /// The kernel's own numbers are much lower.
  private static let first: UInt64 = 1 << 62

  private let sent = InlineArray<3, Atomic<UInt64>> { _ in Atomic(0) }
  private let taken = InlineArray<3, Atomic<UInt64>> { _ in Atomic(0) }

  /// The number of the next mark.
  func next(for waiter: Waiter) -> UInt64 {
    let count = sent[Int(waiter.rawValue)].wrappingAdd(1, ordering: .relaxed).newValue
    return Self.first + count << 2 + waiter.rawValue
  }

  /// Notes a request that was taken. Returns whether it is a mark, which is not served.
  func take(_ request: RequestHeader) -> Bool {
    guard request.operation == FUSE_NOTIFY_REPLY, request.unique >= Self.first else { return false }
    taken[Int(request.unique & 3)].store(request.unique, ordering: .sequentiallyConsistent)
    return true
  }

  func isTaken(_ mark: UInt64) -> Bool { taken[Int(mark & 3)].load(ordering: .sequentiallyConsistent) >= mark }
}
