import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import Testing

@testable import MountDaemon

/// The lock states without a mount. The revocation records its calls.
@Suite struct LockMachineTests {
  @Test func aLockWaitsUntilItIsReleased() throws {
    try Machine.with(lockDelay: .seconds(50)) { machine in
      let told = Told()
      let delay = machine.lock.delayLock { told.add($0) }
      #expect(machine.lock.lock(after: .milliseconds(20)))
      #expect(told.all == [.seconds(50)])
      // Long after the grace period.
      Thread.sleep(.milliseconds(200))
      #expect(machine.state == .gracePeriod && machine.lock.state.delays.count == 1 && machine.revoked == [])
      machine.lock.releaseDelay(delay)
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
      #expect(machine.state == .locked && machine.revoked == [.complete, .completeUnlessOpen])
      #expect(machine.events == [.willBecomeUnavailable, .didBecomeUnavailable])
    }
  }

  @Test func aReleaseDoesNotEndTheGracePeriod() throws {
    try Machine.with(lockDelay: .seconds(50)) { machine in
      let delay = machine.lock.delayLock { _ in }
      let began = ContinuousClock.now
      #expect(machine.lock.lock(after: .milliseconds(200)))
      machine.lock.releaseDelay(delay)
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
      #expect(ContinuousClock.now - began >= .milliseconds(200))
    }
  }

  @Test func theTimeIsBounded() throws {
    try Machine.with(lockDelay: .milliseconds(200)) { machine in
      let told = Told()
      _ = machine.lock.delayLock { told.add($0) }
      let began = ContinuousClock.now
      #expect(machine.lock.lock(after: .milliseconds(20)))
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
      #expect(told.all == [.milliseconds(200)] && ContinuousClock.now - began >= .milliseconds(200))
      #expect(machine.lock.state.delays.count == 0)
    }
  }

  @Test func aLockAtOnceEndsDelays() throws {
    try Machine.with(lockDelay: .seconds(50)) { machine in
      let told = Told()
      _ = machine.lock.delayLock { told.add($0) }
      #expect(machine.lock.lock(after: .milliseconds(1)))
      Thread.sleep(.milliseconds(50))
      // The grace period has ended already, and only the delay holds up the lock.
      #expect(machine.lock.lock(after: .zero))
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
      machine.unlock()
      #expect(machine.lock.lock(after: .zero) && machine.lock.waitUntilLocked(after: 1) != nil)
      #expect(told.all.count == 1)
    }
  }

  @Test func aShorterLockKeepsTheBound() throws {
    try Machine.with(lockDelay: .milliseconds(400)) { machine in
      let told = Told()
      _ = machine.lock.delayLock { told.add($0) }
      let began = ContinuousClock.now
      #expect(machine.lock.lock(after: .milliseconds(300)))
      #expect(machine.lock.lock(after: .milliseconds(1)))
      #expect(!machine.lock.lock(after: .seconds(5)), "a longer one changes nothing")
      let latest = try #require(machine.lock.state.takesEffectAt)
      #expect(latest >= began + .milliseconds(400) && latest <= .now + .milliseconds(400))
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
      #expect(ContinuousClock.now - began >= .milliseconds(400) && told.all.count == 1)
    }
  }

  @Test func anUnlockEndsDelays() throws {
    try Machine.with(lockDelay: .seconds(50)) { machine in
      let told = Told()
      let delay = machine.lock.delayLock { told.add($0) }
      #expect(machine.lock.lock(after: .milliseconds(1)))
      Thread.sleep(.milliseconds(50))
      machine.unlock()
      #expect(machine.state == .unlocked && machine.lock.state.delays.count == 0 && machine.revoked == [])
      // Its client still exists, but no longer delays a lock.
      #expect(machine.lock.lock(after: .milliseconds(1)) && machine.lock.waitUntilLocked(after: 0) != nil)
      machine.lock.releaseDelay(delay)
      #expect(told.all.count == 1)
    }
  }

  @Test func whoRegistersLateHoldsBackTheNext() throws {
    try Machine.with(lockDelay: .milliseconds(100)) { machine in
      let told = Told()
      #expect(machine.lock.lock(after: .milliseconds(50)))
      _ = machine.lock.delayLock { told.add($0) }
      #expect(machine.lock.waitUntilLocked(after: 0) != nil && told.all.isEmpty)
      machine.unlock()
      #expect(machine.lock.lock(after: .milliseconds(50)) && told.all == [.milliseconds(100)])
      #expect(machine.lock.waitUntilLocked(after: 1) != nil)
    }
  }

  @Test func aShorterLockShortensTheBound() throws {
    try Machine.with(lockDelay: .milliseconds(200)) { machine in
      let told = Told()
      _ = machine.lock.delayLock { told.add($0) }
      #expect(machine.lock.lock(after: .seconds(60)))
      #expect(machine.lock.lock(after: .milliseconds(20)) && told.all == [.seconds(60)])
      let latest = try #require(machine.lock.state.takesEffectAt)
      #expect(latest <= .now + .milliseconds(200))
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
    }
  }

  // MARK: During a revocation

  /// The lock takes effect when the destruction has ended, and an unlock that waited for the same does not prevent it.
  @Test func aLockDuringADestructionIsNotLost() throws {
    try Machine.with(lockDelay: .zero) { machine in
      machine.stall()
      let destroying = Thread(name: "destroy") {
        machine.lock.destroy(.init(classes: [.completeWhenUserInactive], successors: [:]) {})
      }
      while !machine.lock.state.isRevoking { Thread.sleep(.milliseconds(1)) }
      #expect(machine.lock.requestLock(after: .zero) == .announced(after: 0))
      #expect(machine.lock.requestLock(after: .zero) == .underWay(after: 0))
      #expect(machine.state == .gracePeriod && machine.revoked == [])
      let unlocking = Thread(name: "unlock") { machine.unlock() }
      machine.goOn()
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
      destroying.join()
      unlocking.join()
      #expect(machine.revoked == [.completeWhenUserInactive, .complete, .completeUnlessOpen])
      #expect(machine.state == .unlocked && machine.lock.state.completedLocks == 1)
    }
  }

  /// A request for a lock in progress waits for that lock. A request to unlock does not wait, and has to be repeated.
  @Test func whatIsAskedForDuringALock() throws {
    try Machine.with(lockDelay: .zero) { machine in
      machine.stall()
      #expect(machine.lock.requestLock(after: .zero) == .announced(after: 0))
      while !machine.lock.state.isRevoking { Thread.sleep(.milliseconds(1)) }
      #expect(machine.lock.requestLock(after: .seconds(1)) == .underWay(after: 0))
      #expect(!machine.lock.unlock([:]) && machine.state == .gracePeriod)
      machine.goOn()
      #expect(machine.lock.waitUntilLocked(after: 0) != nil && machine.state == .locked)
      #expect(machine.lock.requestLock(after: .zero) == .unnecessary)
    }
  }

  /// An erasure also destroys the keybag key, so it waits for what uses that.
  @Test func aDestructionWaitsForARotation() throws {
    try Machine.with(lockDelay: .zero) { machine in
      let completed = Told()
      #expect(machine.lock.beginRotation())
      let erasing = Thread(name: "erasing") {
        machine.lock.destroy(.init(classes: [.complete], successors: [:]) { completed.add(.zero) })
      }
      while machine.revoked.isEmpty { Thread.sleep(.milliseconds(1)) }
      Thread.sleep(.milliseconds(100))
      #expect(!machine.lock.mayRotate && completed.all.isEmpty)
      machine.lock.endRotation()
      erasing.join()
      #expect(completed.all.count == 1)
    }
  }

  /// The first state that a listener gets is the one that its events start from.
  @Test func aListenerHearsEachChangeOnce() throws {
    try Machine.with(lockDelay: .zero) { machine in
      let isDone = Atomic(false)
      let changes = Thread(name: "changes") {
        while !isDone.load(ordering: .relaxed) {
          _ = machine.lock.lock(after: .seconds(50))
          machine.unlock()
        }
      }
      for _ in 0..<2000 {
        let heard = machine.hear(3)
        let expected: [DaemonEvent] =
          heard[0] == .monitoringBegan(.unlocked)
          ? [.monitoringBegan(.unlocked), Machine.willLock, Machine.didUnlock]
          : [.monitoringBegan(.gracePeriod), Machine.didUnlock, Machine.willLock]
        #expect(heard == expected)
      }
      isDone.store(true, ordering: .relaxed)
      changes.join()
    }
  }

  // MARK: Announcements

  /// Who is told, the system's log too, may take its time: whoever looks at the state, or has pages dropped, does not wait
  /// for that.
  @Test func theStateIsNotLockedDuringAnAnnouncement() throws {
    try Machine.with(lockDelay: .zero) { machine in
      let ends = Mutex<[Bool]>([])
      machine.listen { [lock = machine.lock] _ in
        let hasEnded = Semaphore()
        Thread(name: "look") {
          _ = lock.state
          lock.drop(.root)
          hasEnded.post()
        }.detach()
        let isInTime = hasEnded.wait(microseconds: 10_000_000)
        ends.withLock { $0.append(isInTime) }
      }
      #expect(machine.lock.lock(after: .seconds(50)))
      machine.unlock()
      #expect(machine.lock.lock(after: .zero) && machine.lock.waitUntilLocked(after: 0) != nil)
      #expect(ends.withLock { $0 } == [true, true, true, true])
    }
  }

  /// Whoever has waited for a lock finds it announced.
  @Test func aLockIsAnnouncedBeforeItIsWaitedFor() throws {
    try Machine.with(lockDelay: .zero) { machine in
      machine.listen { event in
        if case .didBecomeUnavailable = event { Thread.sleep(.milliseconds(50)) }
      }
      for count in 0..<5 {
        #expect(machine.lock.lock(after: .zero) && machine.lock.waitUntilLocked(after: count) != nil)
        #expect(machine.events.last == .didBecomeUnavailable)
        machine.unlock()
      }
    }
  }
}

extension LockMachine {
  /// Whether it has announced a lock.
  fileprivate func lock(after period: Duration?) -> Bool {
    if case .announced = requestLock(after: period) { true } else { false }
  }
}

extension Thread {
  fileprivate static func sleep(_ duration: Duration) {
    _ = Semaphore().wait(microseconds: Int64(duration / .microseconds(1)))
  }
}
