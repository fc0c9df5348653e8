import CFUSE
import Glibc
import LinuxIO
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
    operation.store(header.contents?.rawValue ?? 0, ordering: .relaxed)
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
    guard number != 0, number & 1 == 0,
      let contents = ContentsOperation(rawValue: operation.load(ordering: .relaxed))
    else { return nil }
    return RequestHeader(
      unique: number, node: NodeID(rawValue: node.load(ordering: .relaxed)), contents: contents, process: 0)
  }

  /// Another thread is about to answer. Returns whether it is its to do, which shows that `current` was right, too.
  func claim(for header: RequestHeader) -> Bool {
    unique.compareExchange(
      expected: header.unique, desired: header.unique | 1, ordering: .acquiringAndReleasing
    ).exchanged
  }
}

/// The kinds of requests on a file's contents, which a lock refuses, by their opcodes (`enum fuse_opcode` in linux/fuse.h).
package enum ContentsOperation: UInt32, Sendable {
  /// The kernel asks for attributes before an open, to check modes, and before a write to its cache.
  case attributes = 3
  case resize = 4
  case open = 14
  case read = 15
  case write = 16
  case allocate = 43
  case copyRange = 47
}

/// What a request says of itself before its arguments.
package struct RequestHeader: Sendable {
  package let unique: UInt64
  package let node: NodeID
  /// What it is to do with contents, if anything.
  package let contents: ContentsOperation?
  /// Who sent it; 0 for the kernel.
  package let process: Int32

  init(unique: UInt64, node: NodeID, contents: ContentsOperation?, process: Int32) {
    self.unique = unique
    self.node = node
    self.contents = contents
    self.process = process
  }

  /// Reads it from a request as the kernel sends it.
  init(_ request: UnsafeRawBufferPointer) {
    // struct fuse_in_header: len u32, opcode u32, unique u64, nodeid u64, uid u32, gid u32, pid u32, … 40 bytes;
    // fuse_setattr_in: valid u32, …
    unique = unsafe request.load(fromByteOffset: 8, as: UInt64.self)
    node = NodeID(rawValue: unsafe request.load(fromByteOffset: 16, as: UInt64.self))
    process = unsafe request.load(fromByteOffset: 32, as: Int32.self)
    let contents = ContentsOperation(rawValue: unsafe request.load(fromByteOffset: 4, as: UInt32.self))
    if contents == .resize, unsafe request.load(fromByteOffset: 40, as: UInt32.self) & Self.setsSize == 0 {
      self.contents = nil
    } else {
      self.contents = contents
    }
  }

  /// `FATTR_SIZE` (linux/fuse.h).
  private static let setsSize: UInt32 = 1 << 3
}
