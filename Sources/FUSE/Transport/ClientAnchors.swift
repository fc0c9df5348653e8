import ProtectfsIO
import Synchronization
import SystemPackage

/// Keeps clients on their processors, where their requests are served with two thread switches and no interrupt.
///
/// The thread that answers occupies the client's processor, so Linux looks for an idle one to wake the client on. The
/// first that it tries is the one on which the client ran before (`recent_used_cpu` in kernel/sched/fair.c). A client
/// that was moved once is therefore moved back and forth with each request, and each time a processor has to be woken
/// from sleep, which can take longer than the request. Where a thread of ours has just been woken on that other
/// processor, it does not count as idle, and the client stays.
final class ClientAnchors: Sendable {
  /// What the last requests of a thread have shown. Threads share a slot by chance.
  private struct Track {
    var thread: UInt32
    var queue: UInt8
    /// The processor that the thread came from.
    var other: UInt8 = 0
    /// For how many answers more that processor is made busy.
    var remaining: UInt8 = 0
    /// It is made busy for longer each time that the thread is moved when it is not. Negative: it did not help, and is
    /// not tried for so many moves.
    var level: Int8 = 0

    init(thread: UInt32, queue: Int) { (self.thread, self.queue) = (thread, UInt8(queue)) }

    init(_ bits: UInt64) { self = unsafe unsafeBitCast(bits, to: Track.self) }

    var bits: UInt64 { unsafe unsafeBitCast(self, to: UInt64.self) }

    mutating func move(to queue: Int) {
      if remaining == 0 {
        level = min(level + 1, ClientAnchors.highestLevel)
      } else {
        level = level > 0 ? level - 1 : ClientAnchors.pause
      }
      (other, self.queue) = (self.queue, UInt8(queue))
      remaining = level < 0 ? 0 : 4 << UInt8(level)
    }

    mutating func stay() {
      if remaining > 0 { remaining -= 1 } else if level > 0 { level = 0 }
    }
  }

  private final class Slot: Sendable {
    let bits = Atomic<UInt64>(0)
  }

  private static let highestLevel: Int8 = 5
  /// Where many processors are idle, Linux finds others, and nothing is gained.
  private static let pause: Int8 = -64

  private let slots = (0..<64).map { _ in Slot() }
  /// The last thread of each queue.
  private let latest: [Slot]
  private let wakeups: [Semaphore]
  private let isOver = Atomic(false)

  init(processors: Int) {
    latest = (0..<processors).map { _ in Slot() }
    wakeups = (0..<processors).map { _ in Semaphore() }
  }

  /// What the thread of a processor does: it sleeps. There is one on each.
  func run(on processor: Int) {
    CommandRing.bindThread(to: processor)
    repeat { wakeups[processor].wait() } while !isOver.load(ordering: .relaxed)
  }

  /// Has the threads end.
  func end() {
    isOver.store(true, ordering: .relaxed)
    for wakeup in wakeups { wakeup.post() }
  }

  /// A request of a thread has come through a queue. Returns the processor that must not be idle when it is answered,
  /// if there is one, for ``occupy(_:)``.
  func follow(_ thread: UInt32, on queue: Int) -> Int? {
    let latest = latest[queue]
    // 0: a page is written, mostly because the thread that was last here flushes a file.
    let thread = thread == 0 ? UInt32(latest.bits.load(ordering: .relaxed)) : thread
    if latest.bits.load(ordering: .relaxed) != thread { latest.bits.store(UInt64(thread), ordering: .relaxed) }
    let slot = slots[Int(thread % 64)]
    let old = Track(slot.bits.load(ordering: .relaxed))
    var new = old
    defer { if new.bits != old.bits { slot.bits.store(new.bits, ordering: .relaxed) } }
    if old.thread != thread {
      new = Track(thread: thread, queue: queue)
    } else if Int(old.queue) != queue {
      new.move(to: queue)
    } else {
      new.stay()
    }
    return new.remaining > 0 ? Int(new.other) : nil
  }

  /// Makes a processor busy for a moment: nothing, beside waking it from sleep.
  func occupy(_ processor: Int) {
    if processor < wakeups.count { wakeups[processor].post() }
  }
}
