import ProtectfsIO
import Testing

@testable import MountDaemon

/// Which clients delay a lock and how long, with simulated times.
@Suite struct LockDelaysTests {
  private let now = ContinuousClock.now
  private var delays = LockDelays(limit: .seconds(10))

  private func after(_ seconds: Int) -> ContinuousClock.Instant { now + .seconds(seconds) }

  @Test mutating func nobodyHoldsBackWithoutAnAnnouncement() {
    _ = delays.register { _ in }
    #expect(delays.count == 0)
    #expect(delays.effect(after: after(1)) == after(1))
  }

  @Test(arguments: [(1, 10), (10, 10), (30, 30)])
  mutating func heldBackForTheLongerOfLimitAndGracePeriod(_ gracePeriod: Int, _ longest: Int) {
    let told = Told()
    let delay = delays.register { told.add($0) }
    delays.tell(at: now, gracePeriod: .seconds(gracePeriod))
    #expect(told.all == [.seconds(longest)] && delays.count == 1)
    #expect(delays.effect(after: after(gracePeriod)) == after(longest))
    delays.release(delay)
    #expect(delays.count == 0 && delays.effect(after: after(gracePeriod)) == after(gracePeriod))
  }

  @Test mutating func everyClientMustRelease() {
    let first = delays.register { _ in }
    let second = delays.register { _ in }
    delays.tell(at: now, gracePeriod: .seconds(1))
    delays.release(first)
    delays.release(first)
    #expect(delays.count == 1 && delays.effect(after: after(1)) == after(10))
    delays.release(second)
    #expect(delays.effect(after: after(1)) == after(1))
  }

  @Test mutating func aShorterGracePeriodDoesNotBeginAnew() {
    _ = delays.register { _ in }
    delays.tell(at: now, gracePeriod: .seconds(60))
    #expect(delays.effect(after: after(9)) == after(60))
    #expect(delays.effect(after: after(61)) == after(61), "never before the grace period has ended")
  }

  @Test(arguments: [(5, 1, 15), (5, 12, 17), (15, 1, 20)])
  mutating func aShorterLockLeavesWhatItWouldHaveGiven(_ time: Int, _ gracePeriod: Int, _ bound: Int) {
    _ = delays.register { _ in }
    delays.tell(at: now, gracePeriod: .seconds(20))
    delays.shorten(at: after(time), gracePeriod: .seconds(gracePeriod))
    #expect(delays.effect(after: after(time + gracePeriod)) == after(max(bound, time + gracePeriod)))
    delays.end()
    delays.shorten(at: after(time), gracePeriod: .seconds(1))
    #expect(delays.effect(after: after(30)) == after(30))
  }

  @Test mutating func whoComesLateWaitsForTheNext() {
    let told = Told()
    delays.tell(at: now, gracePeriod: .seconds(1))
    _ = delays.register { told.add($0) }
    #expect(delays.count == 0 && delays.effect(after: after(1)) == after(1) && told.all.isEmpty)
    delays.end()
    delays.tell(at: after(5), gracePeriod: .seconds(2))
    #expect(delays.count == 1 && delays.effect(after: after(7)) == after(15) && told.all == [.seconds(10)])
  }

  @Test mutating func aDelayIsForOneLock() {
    let told = Told()
    _ = delays.register { told.add($0) }
    delays.tell(at: now, gracePeriod: .seconds(1))
    delays.end()
    #expect(delays.count == 0)
    delays.tell(at: after(5), gracePeriod: .seconds(1))
    #expect(delays.count == 0 && told.all.count == 1)
  }

  @Test mutating func withoutAGracePeriodNobodyIsTold() {
    let told = Told()
    _ = delays.register { told.add($0) }
    delays.tell(at: now, gracePeriod: .zero)
    #expect(delays.count == 0 && told.all.isEmpty && delays.effect(after: now) == now)
    delays.tell(at: after(1), gracePeriod: .seconds(1))
    #expect(told.all.count == 1, "it is registered as before")
  }

  @Test func withoutALimitTheGracePeriodCounts() {
    var delays = LockDelays(limit: .zero)
    let told = Told()
    _ = delays.register { told.add($0) }
    delays.tell(at: now, gracePeriod: .seconds(3))
    #expect(told.all == [.seconds(3)] && delays.effect(after: after(3)) == after(3))
  }

  @Test mutating func whoWithdrawsIsNotTold() {
    let told = Told()
    delays.release(delays.register { told.add($0) })
    delays.tell(at: now, gracePeriod: .seconds(1))
    #expect(delays.count == 0 && told.all.isEmpty)
  }
}

/// The durations that clients were sent.
final class Told: Sendable {
  private let durations = Monitor<[Duration]>(.eventQueue, [])

  var all: [Duration] { durations.read { $0 } }

  func add(_ duration: Duration) {
    durations.update { $0.append(duration) }
  }

  /// Waits until there are so many.
  func wait(for count: Int) {
    durations.wait { (durations, _) -> Void? in durations.count >= count ? () : nil }
  }
}

extension LockDelays {
  /// A lock is announced, and whoever is to be told of it is told.
  mutating func tell(at now: ContinuousClock.Instant, gracePeriod: Duration) {
    for announce in announce(at: now, gracePeriod: gracePeriod) { announce() }
  }
}
