import ProtectfsIO
import Synchronization

// When the reserve is to take requests: all workers have been busy for long, and nobody is left to be called. It sleeps while
// a worker waits, and else looks now and then, as long as there are requests; who takes one does nothing for it.
extension DeviceWatch {
  /// How often the reserve looks while no worker waits, in microseconds.
  private static let reserveTick: Int64 = 50_000
  /// When it has found so often in a row that requests wait and nobody takes any, it does.
  private static let reservePatience = 2

  /// Whether all workers serve requests.
  var isAbandoned: Bool { present.load(ordering: .sequentiallyConsistent) == 0 }

  /// Whether the connection has ended.
  var isOver: Bool { hasEnded.load(ordering: .sequentiallyConsistent) }

  /// Waits until all workers have been busy for long, and a request waits. Returns false when the connection has ended.
  func waitUntilAbandoned() -> Bool {
    var last = taken.load(ordering: .sequentiallyConsistent)
    var quietTicks = 0
    var abandonedTicks = 0
    while !hasEnded.load(ordering: .sequentiallyConsistent) {
      if sleepsWhileOthersWait() || quietTicks >= Self.quietTicks && sleepsUntilTaken(since: last) {
        quietTicks = 0
      } else {
        _ = reserveSeat.wait(microseconds: Self.reserveTick)
      }
      let now = taken.load(ordering: .sequentiallyConsistent)
      let isStuck = now == last && isAbandoned && device.hasNewRequest(milliseconds: 0)
      abandonedTicks = isStuck ? abandonedTicks + 1 : 0
      if abandonedTicks >= Self.reservePatience { return true }
      quietTicks = now == last && !isAbandoned ? quietTicks + 1 : 0
      last = now
    }
    return false
  }

  /// Sleeps until no worker waits, if one does.
  private func sleepsWhileOthersWait() -> Bool {
    let sleeps = waiting.withLock { waiting in
      waiting.isReserveAsleep = !waiting.isEmpty && !hasEnded.load(ordering: .sequentiallyConsistent)
      return waiting.isReserveAsleep
    }
    if sleeps { reserveSeat.wait() }
    return sleeps
  }

  /// Sleeps until a request is taken, as the standby does: there is none.
  private func sleepsUntilTaken(since last: UInt64) -> Bool {
    let number = seats.count
    guard sleeper.compareExchange(expected: -1, desired: number, ordering: .sequentiallyConsistent).exchanged else {
      return false
    }
    defer { withdraw(number) }
    guard taken.load(ordering: .sequentiallyConsistent) == last, !isAbandoned,
      !hasEnded.load(ordering: .sequentiallyConsistent)
    else { return false }
    reserveSeat.wait()
    return true
  }
}
