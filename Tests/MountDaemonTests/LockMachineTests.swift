import Cryptography
import DataProtectionCore
import FUSE
import KeyManagement
import LinuxIO
import StoreFormat
import Synchronization
import SystemPackage
import TestVectors
import Testing

@testable import MountDaemon

/// The lock states without a mount: what revokes notes what it was called for.
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
      #expect(machine.lock.waitUntilLocked(after: 0))
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
      #expect(machine.lock.waitUntilLocked(after: 0))
      #expect(ContinuousClock.now - began >= .milliseconds(200))
    }
  }

  @Test func theTimeIsBounded() throws {
    try Machine.with(lockDelay: .milliseconds(200)) { machine in
      let told = Told()
      _ = machine.lock.delayLock { told.add($0) }
      let began = ContinuousClock.now
      #expect(machine.lock.lock(after: .milliseconds(20)))
      #expect(machine.lock.waitUntilLocked(after: 0))
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
      // The grace period has ended already, and the delay alone is in the way.
      #expect(machine.lock.lock(after: .zero))
      #expect(machine.lock.waitUntilLocked(after: 0))
      machine.unlock()
      #expect(machine.lock.lock(after: .zero) && machine.lock.waitUntilLocked(after: 1))
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
      #expect(machine.lock.waitUntilLocked(after: 0))
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
      // Its client is still there, and holds nothing back.
      #expect(machine.lock.lock(after: .milliseconds(1)) && machine.lock.waitUntilLocked(after: 0))
      machine.lock.releaseDelay(delay)
      #expect(told.all.count == 1)
    }
  }

  @Test func whoRegistersLateHoldsBackTheNext() throws {
    try Machine.with(lockDelay: .milliseconds(100)) { machine in
      let told = Told()
      #expect(machine.lock.lock(after: .milliseconds(50)))
      _ = machine.lock.delayLock { told.add($0) }
      #expect(machine.lock.waitUntilLocked(after: 0) && told.all.isEmpty)
      machine.unlock()
      #expect(machine.lock.lock(after: .milliseconds(50)) && told.all == [.milliseconds(100)])
      #expect(machine.lock.waitUntilLocked(after: 1))
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
      #expect(machine.lock.waitUntilLocked(after: 0))
    }
  }

  // MARK: While something is being revoked

  /// It comes when the destruction has ended, and no unlock that waited for the same is in its way.
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
      #expect(machine.lock.waitUntilLocked(after: 0))
      destroying.join()
      unlocking.join()
      #expect(machine.revoked == [.completeWhenUserInactive, .complete, .completeUnlessOpen])
      #expect(machine.state == .unlocked && machine.lock.state.completedLocks == 1)
    }
  }

  /// Whoever asks for a lock that is being carried out waits for it; whoever wants to unlock does not, and asks again.
  @Test func whatIsAskedForDuringALock() throws {
    try Machine.with(lockDelay: .zero) { machine in
      machine.stall()
      #expect(machine.lock.requestLock(after: .zero) == .announced(after: 0))
      while !machine.lock.state.isRevoking { Thread.sleep(.milliseconds(1)) }
      #expect(machine.lock.requestLock(after: .seconds(1)) == .underWay(after: 0))
      #expect(!machine.lock.unlock([:]) && machine.state == .gracePeriod)
      machine.goOn()
      #expect(machine.lock.waitUntilLocked(after: 0) && machine.state == .locked)
      #expect(machine.lock.requestLock(after: .zero) == .unnecessary)
    }
  }
}

extension LockMachine {
  /// Whether it has announced a lock.
  fileprivate func lock(after period: Duration?) -> Bool {
    if case .announced = requestLock(after: period) { true } else { false }
  }
}

/// A machine that runs, unlocked.
private final class Machine: Sendable, Revocation {
  let lock: LockMachine
  private let classes = Mutex<[ProtectionClass]>([])
  private let told: Kinds
  private let isStalled = Monitor(false)

  var state: LockState { lock.state.lockState }
  var revoked: [ProtectionClass] { classes.withLock { $0 } }
  /// The events since the unlock.
  var events: [Kinds.Kind] { Array(told.all.drop { $0 == .didBecomeAvailable }) }

  static func with(lockDelay: Duration, _ body: (Machine) throws -> Void) throws {
    let machine = try Machine(lockDelay: lockDelay)
    let thread = Thread(name: "lock") { machine.lock.run(machine) }
    defer {
      machine.goOn()
      machine.lock.stop()
      thread.join()
    }
    machine.unlock()
    try body(machine)
  }

  private init(lockDelay: Duration) throws {
    struct Vector: Decodable { let storeID, deviceKey, keybag: Hex }
    let vector = try VectorFile.read("StoreFormatTests/keybag", as: Vector.self)[0]
    let storeID = try #require(StoreID(bytes: vector.storeID.bytes))
    let deviceKey = try VolumeDeviceKey(deviceKey: SecretBytes(vector.deviceKey.bytes), storeID: storeID)
    let keybag = try Keybag(parsing: vector.keybag.bytes, deviceKey: deviceKey)
    let told = Kinds()
    lock = LockMachine(
      gracePeriod: .seconds(10), lockDelay: lockDelay, inactivityPeriod: .seconds(600),
      controller: LockController(
        keybag: keybag, noneKeys: try keybag.noneClassKeys(deviceKey: deviceKey, effaceable: .absent()))
    ) { told.add($0) }
    self.told = told
  }

  func unlock() {
    repeat { lock.waitUntilUnlockable() } while !lock.unlock([:])
  }

  /// Has what revokes wait from now on.
  func stall() { isStalled.update { $0 = true } }

  func goOn() { isStalled.update { $0 = false } }

  func run(_ classes: [ProtectionClass], isEnding: Bool) {
    isStalled.wait { (isStalled, _) -> Void? in isStalled ? nil : () }
    self.classes.withLock { $0 += classes }
  }

  func invalidate(_ node: NodeID) {}
}

/// The kinds of events in their order.
private final class Kinds: Sendable {
  enum Kind { case willBecomeUnavailable, didBecomeUnavailable, didBecomeAvailable, other }

  private let kinds = Mutex<[Kind]>([])

  var all: [Kind] { kinds.withLock { $0 } }

  func add(_ event: DaemonEvent) {
    let kind: Kind =
      switch event {
      case .willBecomeUnavailable: .willBecomeUnavailable
      case .didBecomeUnavailable: .didBecomeUnavailable
      case .didBecomeAvailable: .didBecomeAvailable
      default: .other
      }
    kinds.withLock { $0.append(kind) }
  }
}

extension Thread {
  fileprivate static func sleep(_ duration: Duration) {
    _ = Semaphore().wait(microseconds: Int64(duration / .microseconds(1)))
  }
}
