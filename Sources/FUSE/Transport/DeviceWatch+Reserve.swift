import ProtectfsIO
import Synchronization

// Decides when the reserve takes requests: when all workers have been busy for long and none is idle. The reserve
// sleeps while a worker is idle. Otherwise it checks periodically, as long as there are requests. This costs a worker
// that takes a request nothing.
extension DeviceWatch {
  /// The number of checks in a row that must find requests waiting and none taken, before the reserve takes them.
  private static let reservePatience = 2

  /// Whether all workers serve requests.
  var isLeaderless: Bool { leaders.load(ordering: .sequentiallyConsistent) == 0 }

  /// Whether the connection has ended.
  var isOver: Bool { hasEnded.load(ordering: .sequentiallyConsistent) }

  /// Waits until all workers have been busy for long and a request waits. Returns `false` when the connection has
  /// ended.
  func waitUntilLeaderless() -> Bool {
    var last = taken.load(ordering: .sequentiallyConsistent)
    var quietTicks = 0
    var leaderlessTicks = 0
    while !hasEnded.load(ordering: .sequentiallyConsistent) {
      if sleepsWhileOthersWait() || quietTicks >= Self.quietTicks && sleepsUntilTaken(since: last) {
        quietTicks = 0
      } else {
        _ = reserveSemaphore.wait(microseconds: ticks.reserve)
      }
      let now = taken.load(ordering: .sequentiallyConsistent)
      let isStuck = now == last && isLeaderless && device.hasNewRequest(milliseconds: 0)
      leaderlessTicks = isStuck ? leaderlessTicks + 1 : 0
      if leaderlessTicks >= Self.reservePatience { return true }
      quietTicks = now == last && !isLeaderless ? quietTicks + 1 : 0
      last = now
    }
    return false
  }

  /// If a worker is idle, sleeps until none is.
  private func sleepsWhileOthersWait() -> Bool {
    let sleeps = waiting.withLock { waiting in
      waiting.isReserveAsleep = !waiting.isEmpty && !hasEnded.load(ordering: .sequentiallyConsistent)
      return waiting.isReserveAsleep
    }
    if sleeps { reserveSemaphore.wait() }
    return sleeps
  }

  /// Sleeps until a request is taken, as the watchdog does, because there is none now.
  private func sleepsUntilTaken(since last: UInt64) -> Bool {
    let number = semaphores.count
    guard sleeper.compareExchange(expected: -1, desired: number, ordering: .sequentiallyConsistent).exchanged else {
      return false
    }
    defer { withdraw(number) }
    guard taken.load(ordering: .sequentiallyConsistent) == last, !isLeaderless,
      !hasEnded.load(ordering: .sequentiallyConsistent)
    else { return false }
    reserveSemaphore.wait()
    return true
  }
}
