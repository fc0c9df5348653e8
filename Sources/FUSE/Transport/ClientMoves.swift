import Synchronization

/// Notices clients that Linux moves to another processor with each answer, and says when an answer should be late.
///
/// When an answer wakes its client, the thread that answers still runs on the client's processor, so Linux looks for an
/// idle one. A processor of a guest that has slept for a moment is not taken, since the hypervisor may have given it to
/// others (`available_idle_cpu()` in kernel/sched/core.c). But the one that the client has just left is, and so it goes
/// back and forth, and an interrupt has to wake a processor each time. An answer that is late ends that: by then the
/// other processor sleeps. Where idle processors are always taken, as on hardware, it does not help, and is tried
/// ever more rarely.
final class ClientMoves: Sendable {
  /// How late an answer should be, in microseconds: longer than a hypervisor waits for a processor that sleeps.
  static let delay: UInt32 = 400
  /// So many late answers in a row may be without effect: on the guest where this was measured, two of three were. Then
  /// there is an interval between two, which is doubled with each further one.
  static let patience = 8
  /// The bounds of that interval, in nanoseconds.
  private static let shortestInterval: Int64 = 1_000_000
  private static let longestInterval: Int64 = 1_000_000_000
  /// A move counts as much as so many requests without one.
  private static let weight: UInt8 = 4
  /// Moves count up to this before an answer is late.
  private static let limit: UInt8 = 16
  /// If moves do not count up to the limit within so many requests, the late answer before these has helped.
  static let trial: UInt8 = 32

  /// What is known of a client.
  private struct Client {
    var number: UInt32
    var queue: UInt8
    var score: UInt8 = 0
    /// The number of requests that are still to come until the last late answer has helped.
    var trial: UInt8 = 0

    init(_ number: UInt32, on queue: Int) { (self.number, self.queue) = (number, UInt8(truncatingIfNeeded: queue)) }

    init(_ value: UInt64) {
      number = UInt32(truncatingIfNeeded: value)
      queue = UInt8(truncatingIfNeeded: value >> 32)
      score = UInt8(truncatingIfNeeded: value >> 40)
      trial = UInt8(truncatingIfNeeded: value >> 48)
    }

    var value: UInt64 { UInt64(number) | UInt64(queue) << 32 | UInt64(score) << 40 | UInt64(trial) << 48 }
  }

  /// By the last bits of the clients' numbers. Two clients may drive each other out.
  private let clients = InlineArray<64, Atomic<UInt64>> { _ in Atomic(0) }
  /// The number of late answers in a row without effect.
  private let failures = Atomic<Int>(0)
  private let nextTime = Atomic<Int64>(0)

  /// A thread with the given number, which is not 0, has made a request on the processor of a queue. Returns whether
  /// the answer should be late. `isAlone` says whether there is no other request, `now` is the time in nanoseconds;
  /// both are rarely asked for.
  func noteRequest(of number: UInt32, on queue: Int, isAlone: () -> Bool, now: () -> Int64) -> Bool {
    let place = Int(number) % clients.count
    let last = Client(clients[place].load(ordering: .relaxed))
    var client = Client(number, on: queue)
    if last.number == number {
      client.score = last.queue != client.queue ? last.score + Self.weight : max(last.score, 1) - 1
      client.trial = max(last.trial, 1) - 1
      if last.trial == 1 { forgetFailures() }
    }
    var isLate = false
    if client.score >= Self.limit {
      if client.trial > 0 { failures.add(1, ordering: .relaxed) }
      isLate = isAlone() && begin(at: now())
      (client.score, client.trial) = (0, isLate ? Self.trial : 0)
    }
    clients[place].store(client.value, ordering: .relaxed)
    return isLate
  }

  private func forgetFailures() {
    failures.store(0, ordering: .relaxed)
    nextTime.store(0, ordering: .relaxed)
  }

  /// Returns whether it is time for another late answer.
  private func begin(at time: Int64) -> Bool {
    if time < nextTime.load(ordering: .relaxed) { return false }
    nextTime.store(time + interval, ordering: .relaxed)
    return true
  }

  private var interval: Int64 {
    let excess = failures.load(ordering: .relaxed) - Self.patience
    return excess < 0 ? 0 : min(Self.shortestInterval << min(excess, 16), Self.longestInterval)
  }
}
