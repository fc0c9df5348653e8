import CFUSE
import ProtectfsIO
import Synchronization

/// A request without an answer: a worker is serving it, or it was deferred.
package struct UnansweredRequest: Sendable {
  package let header: RequestHeader
  /// The worker that serves it; `nil` if it was deferred.
  let worker: Int?
  /// The same where it came through a ring.
  var ringWorker: RingWorker?
  /// It was deferred by the rings.
  var isInRing = false

  /// Whether the request changes contents and may have begun to. This is also true of a deferred write, whose writer
  /// has been told of success by the kernel.
  var mayBeMade: Bool {
    switch header.contents {
    case .write: true
    case .resize, .allocate, .copyRange: worker != nil || ringWorker != nil
    case .attributes, .open, .read, nil: false
    }
  }
}

/// The request that a worker is serving, so that another thread can answer in its place if the store does not respond.
///
/// Only the worker writes here, so that a request costs it no more than a few stores to its own memory. The thread that
/// takes the request's number out answers the request. Numbers are never used again (`fuse_get_unique` in
/// fs/fuse/dev.c).
final class ServedRequest: Sendable {
  // Padding: the cache lines of the following fields contain nothing else.
  private let before = InlineArray<8, UInt64>(repeating: 0)
  private let node = Atomic<UInt64>(0)
  /// The kind of the request, with a bit more for a write of cached pages.
  private let operation = Atomic<UInt32>(0)
  private static let writeBack: UInt32 = 1 << 31
  /// 0 without a request. The kernel's numbers are even; an odd number was answered by another thread.
  private let unique = Atomic<UInt64>(0)
  /// While a request is being taken, or answered.
  private static let unknown: UInt64 = 1
  private let after = InlineArray<8, UInt64>(repeating: 0)

  /// Called before the worker takes a request, if there is one. Followed by ``begin(_:)`` or ``end()``.
  func willTake() { unique.store(Self.unknown, ordering: .relaxed) }

  /// Whether the worker may have taken a request that is not seen yet, or has not finished an answer.
  var mayHaveTaken: Bool { unique.load(ordering: .acquiring) == Self.unknown }

  /// Whether the worker neither serves a request nor may have taken one.
  var isIdle: Bool { unique.load(ordering: .acquiring) == 0 }

  /// Begins to serve a request.
  func begin(_ header: RequestHeader) {
    node.store(header.node.rawValue, ordering: .relaxed)
    let kind = header.contents == nil ? 0 : header.operation.rawValue
    operation.store(header.isWriteBack ? kind | Self.writeBack : kind, ordering: .relaxed)
    unique.store(header.unique, ordering: .releasing)
  }

  /// Called by the worker before it answers. Returns whether it may: no other thread has answered.
  func claim() -> Bool {
    unique.exchange(Self.unknown, ordering: .acquiringAndReleasing) & 1 == 0
  }

  /// Ends the request. It was answered, or is being answered by a thread that is not a worker.
  func end() {
    unique.store(0, ordering: .releasing)
  }

  /// The current request, if it is one on contents.
  var current: RequestHeader? {
    let number = unique.load(ordering: .acquiring)
    let kind = operation.load(ordering: .relaxed)
    let operation = fuse_opcode(rawValue: kind & ~Self.writeBack)
    guard number != 0, number & 1 == 0, let contents = ContentsOperation(operation) else { return nil }
    return RequestHeader(
      operation: operation, unique: number, node: NodeID(rawValue: node.load(ordering: .relaxed)), contents: contents,
      isWriteBack: kind & Self.writeBack != 0)
  }

  /// The node of the current request, if its caller may hold the inode's lock and it is not part of a write(2).
  var nodeHeld: NodeID? {
    let number = unique.load(ordering: .acquiring)
    let operation = fuse_opcode(rawValue: operation.load(ordering: .relaxed) & ~Self.writeBack)
    guard number != 0, number & 1 == 0 else { return nil }
    return switch ContentsOperation(operation) {
    case .attributes, .open, .read, .write: nil
    case .resize, .allocate, .copyRange, nil: NodeID(rawValue: node.load(ordering: .relaxed))
    }
  }

  /// Called by another thread before it answers. Returns whether it may, which also shows that `current` was right.
  func claim(for header: RequestHeader) -> Bool {
    unique.compareExchange(
      expected: header.unique, desired: header.unique | 1, ordering: .acquiringAndReleasing
    ).exchanged
  }
}
