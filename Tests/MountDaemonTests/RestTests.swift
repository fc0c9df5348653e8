import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import Testing

@testable import MountDaemon

/// What was locked for long goes back to the state before the first unlock.
@Suite struct RestTests {
  private static let all: [ProtectionClass] = [
    .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication, .completeWhenUserInactive,
  ]

  @Test func afterALock() throws {
    try Machine.with(lockDelay: .zero, restPeriod: .seconds(3600)) { machine in
      machine.pass(.seconds(7200))
      #expect(machine.state == .unlocked && machine.lock.state.restsAt == nil, "unlocked it stays")
      #expect(machine.locks(after: 0))
      machine.pass(.seconds(3599))
      machine.waitUntil { $0.lockState == .inactive }
      #expect(machine.lock.state.restsAt != nil, "class CX has no time of its own")
      machine.pass(.seconds(1))
      machine.waitUntil { $0.lockState == .beforeFirstUnlock && $0.destruction == nil }
      #expect(machine.locked.suffix(4) == Self.all)
      #expect(machine.lock.controller.availability(of: .completeUntilFirstUserAuthentication) == .unavailable)
      #expect(machine.lock.state.restsAt == nil && machine.lock.controller.endOfAvailability == nil)
      #expect(machine.lock.state.completedLocks == 2)
      machine.waitForEvents(4)
      #expect(
        machine.events == [
          .willBecomeUnavailable, .didBecomeUnavailable, .didBecomeUnavailable, .didBecomeUnavailable,
        ])
      machine.unlock()
      #expect(machine.state == .unlocked)
    }
  }

  @Test func anUnlockPutsItOff() throws {
    try Machine.with(lockDelay: .zero, restPeriod: .seconds(3600)) { machine in
      #expect(machine.locks(after: 0))
      machine.pass(.seconds(3000))
      machine.unlock()
      #expect(machine.lock.controller.endOfAvailability == nil)
      #expect(machine.locks(after: 1))
      machine.pass(.seconds(3000))
      machine.waitUntil { $0.lockState == .inactive }
      #expect(machine.lock.controller.availability(of: .completeUntilFirstUserAuthentication) == .available)
    }
  }

  /// A lock that is asked for again does not begin the time anew.
  @Test func anotherLockDoesNotPutItOff() throws {
    try Machine.with(lockDelay: .zero, restPeriod: .seconds(3600)) { machine in
      #expect(machine.locks(after: 0))
      machine.pass(.seconds(3000))
      #expect(machine.lock.requestLock(after: .zero, includingInactive: true) == .unnecessary)
      machine.waitUntil { $0.lockState == .inactive }
      machine.pass(.seconds(600))
      machine.waitUntil { $0.lockState == .beforeFirstUnlock }
    }
  }

  @Test func aMountWithoutTheOptionKeepsClassC() throws {
    try Machine.with(lockDelay: .zero) { machine in
      #expect(machine.locks(after: 0))
      machine.pass(.seconds(365 * 86_400))
      machine.waitUntil { $0.lockState == .inactive }
      #expect(machine.lock.controller.availability(of: .completeUntilFirstUserAuthentication) == .available)
    }
  }

  /// A machine that was suspended beyond the end answers nothing before its threads have run, and takes what programs
  /// wrote.
  @Test func nothingIsAnsweredPastTheEnd() throws {
    try Machine.with(lockDelay: .zero, restPeriod: .seconds(3600)) { machine in
      #expect(machine.locks(after: 0))
      let (controller, classC) = (machine.lock.controller, ProtectionClass.completeUntilFirstUserAuthentication)
      controller.setAvailability(.publicOnly, of: .completeUnlessOpen)
      #expect(controller.allows(.read, on: classC) && controller.allows(.open, on: .completeWhenUserInactive))
      controller.endOfAvailability = MonotonicClock.nanosecondsWithSuspension
      #expect(!controller.allows(.read, on: classC) && !controller.allows(.open, on: .completeWhenUserInactive))
      #expect(controller.allows(.write, on: classC))
      #expect(controller.allows(.read, on: .none) && controller.allows(.create, on: .completeUnlessOpen))
    }
  }

  /// The thread that watches the time has the machine look at it.
  @Test func theTimeIsWatched() throws {
    try Machine.with(lockDelay: .zero, restPeriod: .seconds(3600)) { machine in
      #expect(machine.locks(after: 0))
      machine.lock.controller.endOfAvailability = MonotonicClock.nanosecondsWithSuspension
      let watch = Thread(name: "rest") { machine.lock.watchRest() }
      // No update but that of the thread has the machine find out.
      machine.passUnseen(.seconds(3600))
      machine.waitUntil { $0.lockState == .beforeFirstUnlock }
      machine.lock.stop()
      watch.join()
    }
  }
}

extension Machine {
  /// Locks at once. Returns whether it has, when there were `count` locks before.
  fileprivate func locks(after count: Int) -> Bool {
    lock.requestLock(after: .zero) == .announced(after: count) && lock.waitUntilLocked(after: count) != nil
  }
}
