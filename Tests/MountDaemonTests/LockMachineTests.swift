import Cryptography
import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import Testing

@testable import MountDaemon

/// The lock states without a mount. The lock sequence records its calls.
@Suite struct LockMachineTests {
  @Test func aLockWaitsUntilItIsReleased() throws {
    try Machine.with(lockDelay: .seconds(50)) { machine in
      let told = Told()
      let delay = machine.lock.delayLock { told.add($0) }
      #expect(machine.lock.lock(after: .seconds(2)))
      #expect(told.all == [.seconds(50)])
      // Long after the grace period.
      machine.pass(.seconds(20))
      #expect(machine.takesEffectAfter == .seconds(30) && machine.lock.state.delays.count == 1)
      #expect(machine.state == .gracePeriod && machine.locked == [])
      machine.lock.releaseDelay(delay)
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
      #expect(machine.state == .locked && machine.locked == [.complete, .completeUnlessOpen])
      #expect(machine.events == [.willBecomeUnavailable, .didBecomeUnavailable])
    }
  }

  /// After a lock, pages of files that are open for writing are dropped again, for some seconds, and until no write(2)
  /// is under way that had begun before.
  @Test func dropsLateWrites() throws {
    try Machine.with(lockDelay: .zero) { machine in
      machine.late.update { $0.writes = .possible }
      #expect(machine.lock.lock(after: .zero) && machine.lock.waitUntilLocked(after: 0) != nil)
      #expect(machine.drops == 0)
      for count in 1...3 {
        machine.pass(.milliseconds(100))
        machine.waitForDrop(count)
      }
      machine.pass(.seconds(5))
      machine.waitUntil { $0.lateDrops == nil }
      #expect(machine.drops == 4)

      machine.unlock()
      machine.late.update { $0.writes = .underWay }
      #expect(machine.lock.lock(after: .zero) && machine.lock.waitUntilLocked(after: 1) != nil)
      for count in 5...7 {
        machine.pass(.seconds(10))
        machine.waitForDrop(count)
      }
      machine.late.update { $0.writes = .none }
      machine.pass(.seconds(1))
      machine.waitUntil { $0.lateDrops == nil }
      #expect(machine.drops == 8)
    }
  }

  /// Class CX goes with a lock that asks for it: of an unlocked mount, of one that is locked, during another lock.
  @Test func aLockThatIncludesInactive() throws {
    let all: [ProtectionClass] = [.complete, .completeUnlessOpen, .completeWhenUserInactive]
    try Machine.with(lockDelay: .zero) { machine in
      #expect(machine.lock.requestLock(after: .zero, includingInactive: true) == .announced(after: 0))
      #expect(machine.lock.waitUntilLocked(after: 0) != nil && machine.lock.waitUntilInactive() != nil)
      #expect(machine.state == .inactive && machine.locked == all)
      #expect(machine.lock.requestLock(after: .zero, includingInactive: true) == .unnecessary)
      #expect(machine.lock.waitUntilInactive() != nil)

      machine.unlock()
      #expect(machine.lock.lock(after: .zero) && machine.lock.waitUntilLocked(after: 1) != nil)
      #expect(machine.state == .locked && machine.locked == all + all.prefix(2), "the unlock has ended it")
      #expect(machine.lock.requestLock(after: .zero, includingInactive: true) == .unnecessary)
      #expect(machine.lock.waitUntilInactive() != nil && machine.locked == all + all)

      machine.unlock()
      machine.stall()
      #expect(machine.lock.requestLock(after: .zero) == .announced(after: 2))
      machine.waitUntil { $0.isLocking }
      #expect(machine.lock.requestLock(after: .zero, includingInactive: true) == .underWay(after: 2))
      machine.goOn()
      #expect(machine.lock.waitUntilLocked(after: 2) != nil && machine.lock.waitUntilInactive() != nil)
      #expect(machine.state == .inactive && machine.locked == all + all + all)
    }
  }

  @Test func aReleaseDoesNotEndTheGracePeriod() throws {
    try Machine.with(lockDelay: .seconds(50)) { machine in
      let delay = machine.lock.delayLock { _ in }
      #expect(machine.lock.lock(after: .seconds(2)))
      machine.pass(.seconds(1))
      machine.lock.releaseDelay(delay)
      #expect(machine.state == .gracePeriod && machine.takesEffectAfter == .seconds(1))
      machine.pass(.seconds(1))
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
    }
  }

  @Test func theTimeIsBounded() throws {
    try Machine.with(lockDelay: .seconds(50)) { machine in
      let told = Told()
      _ = machine.lock.delayLock { told.add($0) }
      #expect(machine.lock.lock(after: .seconds(2)))
      #expect(told.all == [.seconds(50)] && machine.takesEffectAfter == .seconds(50))
      machine.pass(.seconds(50))
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
      #expect(machine.lock.state.delays.count == 0)
    }
  }

  @Test func aLockAtOnceEndsDelays() throws {
    try Machine.with(lockDelay: .seconds(50)) { machine in
      let told = Told()
      _ = machine.lock.delayLock { told.add($0) }
      #expect(machine.lock.lock(after: .seconds(2)))
      machine.pass(.seconds(10))
      // The grace period has ended already, and only the delay holds up the lock.
      #expect(machine.lock.lock(after: .zero))
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
      machine.unlock()
      #expect(machine.lock.lock(after: .zero) && machine.lock.waitUntilLocked(after: 1) != nil)
      #expect(told.all.count == 1)
    }
  }

  @Test func aShorterLockKeepsTheBound() throws {
    try Machine.with(lockDelay: .seconds(50)) { machine in
      let told = Told()
      _ = machine.lock.delayLock { told.add($0) }
      #expect(machine.lock.lock(after: .seconds(20)))
      machine.pass(.seconds(5))
      #expect(machine.lock.lock(after: .seconds(1)))
      #expect(!machine.lock.lock(after: .seconds(50)), "a longer one changes nothing")
      #expect(machine.takesEffectAfter == .seconds(45))
      machine.pass(.seconds(45))
      #expect(machine.lock.waitUntilLocked(after: 0) != nil && told.all.count == 1)
    }
  }

  @Test func anUnlockEndsDelays() throws {
    try Machine.with(lockDelay: .seconds(50)) { machine in
      let told = Told()
      let delay = machine.lock.delayLock { told.add($0) }
      #expect(machine.lock.lock(after: .seconds(2)))
      machine.pass(.seconds(10))
      machine.unlock()
      #expect(machine.state == .unlocked && machine.lock.state.delays.count == 0 && machine.locked == [])
      // Its client still exists, but no longer delays a lock.
      #expect(machine.lock.lock(after: .seconds(2)))
      machine.pass(.seconds(2))
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
      machine.lock.releaseDelay(delay)
      #expect(told.all.count == 1)
    }
  }

  @Test func whoRegistersLateHoldsBackTheNext() throws {
    try Machine.with(lockDelay: .seconds(50)) { machine in
      let told = Told()
      #expect(machine.lock.lock(after: .seconds(2)))
      _ = machine.lock.delayLock { told.add($0) }
      machine.pass(.seconds(2))
      #expect(machine.lock.waitUntilLocked(after: 0) != nil && told.all.isEmpty)
      machine.unlock()
      #expect(machine.lock.lock(after: .seconds(2)) && told.all == [.seconds(50)])
      machine.pass(.seconds(50))
      #expect(machine.lock.waitUntilLocked(after: 1) != nil)
    }
  }

  @Test func aShorterLockShortensTheBound() throws {
    try Machine.with(lockDelay: .seconds(5)) { machine in
      let told = Told()
      _ = machine.lock.delayLock { told.add($0) }
      #expect(machine.lock.lock(after: .seconds(60)))
      #expect(machine.lock.lock(after: .seconds(2)) && told.all == [.seconds(60)])
      #expect(machine.takesEffectAfter == .seconds(5))
      machine.pass(.seconds(5))
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
    }
  }

  @Test func inactivityBeginsWithTheLock() throws {
    try Machine.with(lockDelay: .zero) { machine in
      #expect(machine.lock.lock(after: .zero) && machine.lock.waitUntilLocked(after: 0) != nil)
      machine.pass(.seconds(599))
      #expect(machine.state == .locked)
      machine.pass(.seconds(1))
      machine.waitUntil { $0.lockState == .inactive }
      #expect(machine.locked == [.complete, .completeUnlessOpen, .completeWhenUserInactive])
    }
  }

  // MARK: During a lock

  /// The lock takes effect when the destruction has ended, and an unlock that waited for the same does not prevent it.
  @Test func aLockDuringADestructionIsNotLost() throws {
    try Machine.with(lockDelay: .zero) { machine in
      machine.stall()
      let destroying = Thread(name: "destroy") {
        machine.lock.destroy(.init(classes: [.completeWhenUserInactive]) { [:] })
      }
      machine.waitUntil { $0.isLocking }
      #expect(machine.lock.requestLock(after: .zero) == .announced(after: 0))
      #expect(machine.lock.requestLock(after: .zero) == .underWay(after: 0))
      #expect(machine.state == .gracePeriod && machine.locked == [])
      let unlocking = Thread(name: "unlock") { machine.unlock() }
      machine.goOn()
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)
      destroying.join()
      unlocking.join()
      #expect(machine.locked == [.completeWhenUserInactive, .complete, .completeUnlessOpen])
      #expect(machine.state == .unlocked && machine.lock.state.completedLocks == 1)
    }
  }

  /// A request for a lock in progress waits for that lock. A request to unlock does not wait, and has to be repeated.
  @Test func whatIsAskedForDuringALock() throws {
    try Machine.with(lockDelay: .zero) { machine in
      machine.stall()
      #expect(machine.lock.requestLock(after: .zero) == .announced(after: 0))
      machine.waitUntil { $0.isLocking }
      #expect(machine.lock.requestLock(after: .seconds(1)) == .underWay(after: 0))
      #expect(machine.unlockNow() == .locking && machine.state == .gracePeriod)
      machine.goOn()
      #expect(machine.lock.waitUntilLocked(after: 0) != nil && machine.state == .locked)
      #expect(machine.lock.requestLock(after: .zero) == .unnecessary)
    }
  }

  /// The secret of an unlock takes a while to check: a lock that is asked for meanwhile is not undone, also where it
  /// finds nothing to lock.
  @Test(arguments: [Duration.zero, .seconds(50)])
  func anUnlockDoesNotUndoALaterLock(period: Duration) throws {
    try Machine.with(lockDelay: .zero) { machine in
      let early = machine.lock.beginUnlock()
      #expect(machine.lock.lock(after: period))
      #expect(machine.lock.unlock([:], early) == .cancelled)
      if period > .zero {
        #expect(machine.state == .gracePeriod && machine.unlockNow() == .unlocked)
        #expect(machine.lock.lock(after: .zero))
      }
      #expect(machine.lock.waitUntilLocked(after: 0) != nil)

      let late = machine.lock.beginUnlock()
      #expect(machine.lock.requestLock(after: period) == .unnecessary)
      #expect(machine.lock.unlock([:], late) == .cancelled && machine.state == .locked)
      #expect(machine.unlockNow() == .unlocked && machine.state == .unlocked)
    }
  }

  /// A lock of everything cancels the unlocks that have begun when it is asked for, also while it waits, or where the
  /// mount is gone.
  @Test(arguments: [true, false]) func anUnlockDoesNotUndoALaterLockOfEverything(isMountGone: Bool) throws {
    try Machine.with(lockDelay: .zero) { machine in
      machine.lock.monitor.update { $0.isMountGone = isMountGone }
      let early = machine.lock.beginUnlock()
      machine.lock.cancelUnlocks()
      #expect(!machine.lock.waitUntilUnlockable(early))
      machine.lock.lockEverything()
      machine.lock.monitor.update { $0.isMountGone = false }
      #expect(machine.lock.unlock([:], early) == .cancelled && machine.state == .beforeFirstUnlock)
      #expect(machine.unlockNow() == .unlocked)
    }
  }

  /// The mount is gone, and the lock that follows from that is not to undo the unlock.
  @Test func anUnlockWaitsUntilAGoneMountIsLocked() throws {
    try Machine.with(lockDelay: .zero) { machine in
      machine.lock.monitor.update { $0.isMountGone = true }
      #expect(machine.unlockNow() == .locking)
      let unlocking = Thread(name: "unlock") { machine.unlock() }
      machine.lock.lockEverything()
      #expect(machine.state == .beforeFirstUnlock)
      machine.lock.monitor.update { $0.isMountGone = false }
      unlocking.join()
      #expect(machine.state == .unlocked)
    }
  }

  /// An erasure also destroys the keybag key, so it waits for what uses that.
  @Test func aDestructionWaitsForARotation() throws {
    try Machine.with(lockDelay: .zero) { machine in
      for isHeld in [false, true] {
        let (completed, wiped) = (Told(), Told())
        #expect(machine.lock.beginRotation())
        let holds =
          isHeld
          && machine.lock.holdRotationKey {
            wiped.add(.zero)
            return true
          }
        #expect(holds == isHeld)
        let locked = machine.locked.count
        let erasing = Thread(name: "erasing") {
          machine.lock.destroy(
            .init(classes: [.complete]) {
              completed.add(.zero)
              return [:]
            })
        }
        machine.waitForLock(after: locked)
        wiped.wait(for: isHeld ? 1 : 0)
        Thread.sleep(.milliseconds(100))
        #expect(!machine.lock.mayRotate && completed.all.isEmpty)
        machine.lock.endRotation()
        erasing.join()
        #expect(completed.all.count == 1)
      }
    }
  }

  /// A rotation that changes the keybag while everything is being locked, or after that, brings no key back.
  @Test(arguments: [true, false]) func noKeyComesBack(isEnding: Bool) throws {
    try Machine.with(lockDelay: .zero) { machine in
      let classes = ProtectionClass.allCases.filter { $0 != .none }
      let id = try #require(ClassKeyID(rawValue: 7))
      func replaceKeys() {
        for fileClass in classes {
          machine.lock.replaceKeys([fileClass: [HeldKey(id, SecretBytes(count: HeldKey.size))]])
        }
      }
      #expect(machine.lock.beginRotation())
      let locking = Thread(name: "lock everything") {
        isEnding ? machine.lock.withholdEverything() : machine.lock.lockEverything()
      }
      machine.waitForLock(after: 0)
      replaceKeys()
      machine.lock.endRotation()
      locking.join()
      replaceKeys()
      #expect(machine.state == .beforeFirstUnlock)
      for fileClass in classes { #expect(!machine.lock.controller.holdsKey(of: fileClass), "\(fileClass)") }
    }
  }

  /// A lock wipes the keybag key of a rotation, and does not wait for its end. The rotation cannot continue after an
  /// unlock.
  @Test func aLockWipesTheKeybagKey() throws {
    try Machine.with(lockDelay: .zero) { machine in
      let wiped = Told()
      #expect(machine.lock.beginRotation())
      let isHeld = machine.lock.holdRotationKey {
        wiped.add(.zero)
        return true
      }
      #expect(isHeld && machine.lock.mayRotate)
      #expect(machine.lock.lock(after: .zero))
      #expect(machine.lock.waitUntilLocked(after: 0)?.keepsKeybagKey == false)
      #expect(wiped.all.count == 1)
      machine.unlock()
      #expect(!machine.lock.mayRotate && !machine.lock.beginRotation())
      machine.lock.endRotation()
      #expect(machine.lock.mayRotate && machine.lock.beginRotation())
      machine.lock.endRotation()
    }
  }

  /// A rotation whose change of the keybag hangs in the store is waited for as long as the store is. It gets no key
  /// later.
  @Test(arguments: [true, false]) func aRotationThatHangsIsNotWaitedFor(isOpening: Bool) throws {
    try Machine.with(lockDelay: .zero, patience: .milliseconds(50)) { machine in
      #expect(machine.lock.beginRotation())
      if !isOpening { #expect(machine.lock.holdRotationKey { false }) }
      #expect(machine.lock.lock(after: .zero))
      #expect(machine.lock.waitUntilLocked(after: 0)?.keepsKeybagKey == true && machine.state == .locked)
      #expect(!machine.lock.holdRotationKey { true })
      machine.lock.endRotation()
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

  /// Who is told, the system's log too, may take its time: whoever looks at the state, or has pages dropped, does not
  /// wait for that.
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
        let isInTime = hasEnded.wait(microseconds: 60_000_000)
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
