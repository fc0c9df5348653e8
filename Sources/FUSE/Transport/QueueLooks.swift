import Synchronization

/// What the keeper sees of the queues while there are requests: which have not moved since its last look, and which
/// have more buffers than they need.
struct QueueLooks {
  /// For so many looks a queue must have needed no more than one buffer before its width is reduced.
  private static let calm = 2

  private struct Last {
    var progress: UInt64 = 0
    /// For how many looks the queue has needed no more than one buffer.
    var calm = 0
  }

  private var last: [Last] = []
  private var quietLooks = 0
  private var rate: RequestRate
  private let hold: BurstHold?

  /// There is a look each `interval`, in microseconds. `hold`, if given, is told of bursts of requests.
  init(interval: Int64, _ hold: BurstHold? = nil) {
    rate = RequestRate(looksEvery: interval)
    self.hold = hold
  }

  /// Nothing was to be seen for a while.
  private(set) var areOver = false
  var isBurst: Bool { rate.isBurst }

  /// Widens each queue that has stood still since the last look, and narrows those that have been calm. Has a request
  /// made for a queue in whose backlog some may wait while others hang. Returns the queues for which no thread is left.
  ///
  /// `isRegular`: looks follow each other at the interval, until they are over. What has come before the first of them
  /// or between others says nothing of a burst, and of others none may follow that would notice its end.
  mutating func look(_ rings: RequestRings, isRegular: Bool) -> [RingQueue] {
    let continues = isRegular && !areOver
    if last.isEmpty { last = rings.queues.map { _ in Last() } }
    var (isQuiet, served, forsaken) = (true, UInt64(0), [RingQueue]())
    for (index, queue) in rings.queues.enumerated() {
      let moved = queue.progress &- last[index].progress
      last[index].progress &+= moved
      served += moved
      let mayHaveBacklog = queue.mayHaveBacklog.load(ordering: .relaxed)
      if moved > 0 || queue.standsStill || mayHaveBacklog { isQuiet = false }
      if moved > 0 {
        narrow(queue, at: index, rings)
        continue
      }
      if queue.standsStill, !rings.widen(queue), !rings.grow(queue) { forsaken.append(queue) }
      if queue.busy > 0 {
        if mayHaveBacklog { rings.nudge(queue) }
      } else {
        // A buffer that was committed and waits has found the backlog empty.
        queue.mayHaveBacklog.store(false, ordering: .relaxed)
      }
    }
    quietLooks = isQuiet ? quietLooks + 1 : 0
    areOver = quietLooks >= DeviceWatch.quietTicks
    if areOver {
      quietLooks = 0
      rate.reset()
    }
    if isRegular {
      rate.add(continues ? served : 0)
      hold?.update(.rings, rate)
    }
    return forsaken
  }

  /// Has threads of a queue rest that has not needed more than one for a while.
  private mutating func narrow(_ queue: RingQueue, at index: Int, _ rings: RequestRings) {
    let isNeeded = queue.isNeeded.exchange(false, ordering: .relaxed)
    last[index].calm = isNeeded ? 0 : last[index].calm + 1
    let surplus = queue.idleWorkers - 1
    guard last[index].calm >= Self.calm, surplus > 0 else { return }
    last[index].calm = 0
    for _ in 0..<surplus { rings.requestRest(on: queue) }
  }
}
