import ProtectfsIO
import Synchronization

/// What the threads of a queue share.
final class RingQueue: Sendable {
  let number: Int
  // Padding: the cache line of the following fields contains nothing else.
  private let before = InlineArray<8, UInt64>(repeating: 0)
  /// Buffers that wait for a request, or are about to.
  private let idle = Atomic<Int>(0)
  private let all = Atomic<Int>(0)
  /// Those that wait and are the keeper's.
  private let kept = Atomic<Int>(0)
  /// The number of buffers that were committed or added.
  private let entered = Atomic<UInt64>(0)
  /// Requests may wait in the kernel that no waiting buffer is given, only one that is committed.
  let mayHaveBacklog = Atomic(false)
  /// The worker that had the last request.
  private let latest = Atomic<Int>(-1)
  /// More than one buffer was needed since the keeper's last look.
  let isNeeded = Atomic(false)
  /// The daemon may not run on the processor, so nobody can make a request there.
  private let isForeign = Atomic(false)
  private let after = InlineArray<8, UInt64>(repeating: 0)

  init(number: Int) { self.number = number }

  /// Runs the calling thread on the queue's processor, if that is possible.
  func bindThread() { isForeign.store(!CommandRing.bindThread(to: number), ordering: .relaxed) }

  /// Whether a request can be made on the processor. Without that, what has queued up waits for a buffer in use.
  var takesNudges: Bool { !isForeign.load(ordering: .relaxed) }

  /// The number of buffers with requests.
  var busy: Int { all.load(ordering: .relaxed) - idle.load(ordering: .relaxed) }

  /// A new buffer is to wait for a request.
  func add() {
    all.wrappingAdd(1, ordering: .relaxed)
    enter()
  }

  /// The number of times that a buffer was committed or added.
  var progress: UInt64 { entered.load(ordering: .relaxed) }

  /// The number of buffers that wait for a request, or are about to.
  var idleCount: Int { idle.load(ordering: .relaxed) }

  /// The same without the keeper's. What these are given has another thread woken, so they do not wait alone.
  var idleWorkers: Int { idle.load(ordering: .relaxed) - kept.load(ordering: .relaxed) }

  /// A buffer is kept from the queue.
  func remove() { all.wrappingSubtract(1, ordering: .relaxed) }

  /// It comes back, in use.
  func restore() { all.wrappingAdd(1, ordering: .relaxed) }

  // Whoever takes the last buffer looks whether the keeper watches; the keeper, before it stops that, the other way
  // round. So these two are ordered with what follows them.

  /// Whether no buffer waits for a request.
  var standsStill: Bool { idle.load(ordering: .sequentiallyConsistent) <= 0 }

  /// A buffer has a request. Returns how many still wait for one.
  func leave() -> Int { idle.wrappingSubtract(1, ordering: .sequentiallyConsistent).newValue }

  /// The buffer of a worker has a request that is no nudge. Returns whether the last one was another's: the kernel
  /// prefers the buffer that was used last, so they came at the same time.
  func leave(by worker: Int) -> Bool {
    _ = leave()
    if latest.load(ordering: .relaxed) == worker { return false }
    latest.store(worker, ordering: .relaxed)
    return true
  }

  /// A buffer of the keeper has a request. Returns how many buffers still wait for one.
  func leaveKept() -> Int {
    defer { kept.wrappingSubtract(1, ordering: .relaxed) }
    return leave()
  }

  /// A buffer of the keeper waits for a request.
  func enterKept() {
    kept.wrappingAdd(1, ordering: .relaxed)
    enter()
  }

  /// A new buffer of the keeper is to wait for a request.
  func addKept() {
    kept.wrappingAdd(1, ordering: .relaxed)
    add()
  }

  /// A buffer waits for a request.
  func enter() {
    entered.wrappingAdd(1, ordering: .relaxed)
    idle.wrappingAdd(1, ordering: .relaxed)
  }
}
