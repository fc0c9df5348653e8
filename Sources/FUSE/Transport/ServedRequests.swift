import CFUSE
import ProtectfsIO
import Synchronization

/// A request that has no answer yet: a worker is serving it, or it was put off.
package struct UnansweredRequest: Sendable {
  package let header: RequestHeader
  /// The worker that serves it; `nil` for one that was put off.
  let worker: Int?

  /// Whether it changes contents, and may have begun to. A write that was put off tells the same: the kernel has told its
  /// writer of success.
  var mayBeMade: Bool {
    switch header.contents {
    case .write: true
    case .resize, .allocate, .copyRange: worker != nil
    case .attributes, .open, .read, nil: false
    }
  }
}

/// What a worker is serving, so that another thread can answer in its place where the store does not answer.
///
/// The worker alone writes it, so that a request costs it no more than a few stores to memory of its own. Whoever takes the
/// number of the request out answers it; numbers are never used again (`fuse_get_unique` in fs/fuse/dev.c).
final class ServedRequest: Sendable {
  // Nothing else may lie in the cache lines of what follows.
  private let before = InlineArray<8, UInt64>(repeating: 0)
  private let node = Atomic<UInt64>(0)
  private let operation = Atomic<UInt32>(0)
  /// 0 between two requests. The kernel's numbers are even: an odd one was answered by another thread.
  private let unique = Atomic<UInt64>(0)
  private let after = InlineArray<8, UInt64>(repeating: 0)

  /// Begins to serve a request.
  func begin(_ header: RequestHeader) {
    node.store(header.node.rawValue, ordering: .relaxed)
    operation.store(header.contents == nil ? 0 : header.operation.rawValue, ordering: .relaxed)
    unique.store(header.unique, ordering: .releasing)
  }

  /// The worker is about to answer. Returns whether it is its to do: nobody has in its place.
  func claim() -> Bool {
    unique.exchange(0, ordering: .acquiringAndReleasing) & 1 == 0
  }

  /// Goes on to the next request. This one has its answer, or is answered by a thread that is no worker.
  func end() {
    unique.store(0, ordering: .releasing)
  }

  /// The request at hand, if it is one for contents.
  var current: RequestHeader? {
    let number = unique.load(ordering: .acquiring)
    let operation = fuse_opcode(rawValue: operation.load(ordering: .relaxed))
    guard number != 0, number & 1 == 0, let contents = ContentsOperation(operation) else { return nil }
    return RequestHeader(
      operation: operation, unique: number, node: NodeID(rawValue: node.load(ordering: .relaxed)), contents: contents)
  }

  /// Another thread is about to answer. Returns whether it is its to do, which shows that `current` was right, too.
  func claim(for header: RequestHeader) -> Bool {
    unique.compareExchange(
      expected: header.unique, desired: header.unique | 1, ordering: .acquiringAndReleasing
    ).exchanged
  }
}
