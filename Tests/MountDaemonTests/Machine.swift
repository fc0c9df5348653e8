import Cryptography
import FUSE
import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import TestVectors
import Testing

@testable import MountDaemon

/// A running machine, unlocked.
final class Machine: Sendable, ClassLocking {
  let lock: LockMachine
  let patience: Duration
  private let classes = Monitor<[ProtectionClass]>(.test, [])
  private let told: Kinds
  private let isStalled = Monitor(.test, false)
  private let clock: StoppedClock
  private let broadcast: EventBroadcast

  var state: LockState { lock.state.lockState }
  var locked: [ProtectionClass] { classes.read { $0 } }

  /// Waits until more classes than so many were locked.
  func waitForLock(after count: Int) {
    classes.wait { (classes, _) -> Void? in classes.count > count ? () : nil }
  }

  /// The events since the unlock.
  var events: [Kinds.Kind] { Array(told.all.drop { $0 == .didBecomeAvailable }) }

  /// Waits until there were so many events since the unlock.
  func waitForEvents(_ count: Int) { told.wait(for: count + told.all.prefix { $0 == .didBecomeAvailable }.count) }

  static func with(
    lockDelay: Duration, patience: Duration = .seconds(600), restPeriod: Duration? = nil,
    _ body: (Machine) throws -> Void
  ) throws {
    let machine = try Machine(lockDelay: lockDelay, patience, restPeriod)
    let thread = Thread(name: "lock") { machine.lock.run(machine) }
    defer {
      machine.goOn()
      machine.lock.stop()
      thread.join()
    }
    machine.unlock()
    try body(machine)
  }

  private init(lockDelay: Duration, _ patience: Duration, _ restPeriod: Duration?) throws {
    self.patience = patience
    struct Vector: Decodable { let storeID, deviceKey, keybag: Hex }
    let vector = try VectorFile.read("StoreFormatTests/keybag", as: Vector.self)[0]
    let storeID = try #require(StoreID(bytes: vector.storeID.bytes))
    let deviceKey = try VolumeDeviceKey(deviceKey: SecretBytes(vector.deviceKey.bytes), storeID: storeID)
    let keybag = try Keybag(parsing: vector.keybag.bytes, deviceKey: deviceKey)
    let told = Kinds()
    let broadcast = EventBroadcast()
    let clock = StoppedClock()
    lock = LockMachine(
      gracePeriod: .seconds(10), lockDelay: lockDelay, inactivityPeriod: .seconds(600),
      restPeriod: restPeriod,
      controller: LockController(
        keybag: keybag, noneKeys: try keybag.noneClassKeys(deviceKey: deviceKey, effaceable: .absent())),
      now: { clock.now }
    ) {
      told.add($0)
      broadcast.send($0)
    }
    self.told = told
    self.broadcast = broadcast
    self.clock = clock
  }

  func unlock() {
    let beginning = lock.beginUnlock()
    while lock.waitUntilUnlockable(beginning), lock.unlock([:], beginning) == .locking {}
  }

  /// The same, but does not wait where that is needed.
  func unlockNow() -> LockMachine.UnlockResult { lock.unlock([:], lock.beginUnlock()) }

  /// When the announced lock takes effect at the latest, counted from now.
  var takesEffectAfter: Duration? { lock.state.takesEffectAt.map { $0 - clock.now } }

  /// Lets the machine's time pass, which otherwise stands still.
  func pass(_ duration: Duration) {
    clock.advance(by: duration)
    lock.monitor.update { _ in }
  }

  /// The same, and the machine is not told.
  func passUnseen(_ duration: Duration) { clock.advance(by: duration) }

  func waitUntil(_ condition: (LockMachine.State) -> Bool) {
    lock.monitor.wait { (state, _) -> Void? in condition(state) ? () : nil }
  }

  static let willLock = DaemonEvent.willBecomeUnavailable(classes: LockMachine.lockedClasses, seconds: 50)
  static let didUnlock = DaemonEvent.didBecomeAvailable(classes: LockMachine.lockedClasses)

  /// The first events that a new listener gets.
  func hear(_ count: Int) -> [DaemonEvent] {
    let heard = Monitor<[DaemonEvent]>(.eventQueue, [])
    let deliver: @Sendable (DaemonEvent) -> Void = { event in heard.update { $0.append(event) } }
    let subscription = lock.beginMonitoring(deliver) { broadcast.subscribe(deliver) }
    defer { broadcast.unsubscribe(subscription) }
    return heard.wait { (events, _) in events.count >= count ? Array(events[..<count]) : nil }
  }

  /// Calls `body` with each event, as part of its announcement.
  func listen(_ body: @escaping @Sendable (DaemonEvent) -> Void) { _ = broadcast.subscribe(body) }

  /// Makes the lock wait from now on.
  func stall() { isStalled.update { $0 = true } }

  func goOn() { isStalled.update { $0 = false } }

  func run(_ classes: [ProtectionClass], evictingOpenFiles: Bool) -> LockOutcome {
    isStalled.wait { (isStalled, _) -> Void? in isStalled ? nil : () }
    self.classes.update { $0 += classes }
    return LockOutcome()
  }

  func drop(_ nodes: [NodeID]) {}

  /// What is said to be written late, and how often it was asked for.
  let late = Monitor<(writes: LateWrites, drops: Int)>(.test, (.none, 0))

  var drops: Int { late.read { $0.drops } }

  /// Waits until pages of late writes were dropped so often, and the time of the next drop is set.
  func waitForDrop(_ count: Int) {
    late.wait { (late, _) -> Void? in late.drops >= count ? () : nil }
    waitUntil { state in state.lateDrops.map { $0.next > clock.now } ?? false }
  }

  func dropLateWrites() -> LateWrites {
    late.update { late in
      late.drops += 1
      return late.writes
    }
  }

  func report(_ outcome: LockOutcome) {}
}

/// The kinds of events in their order.
final class Kinds: Sendable {
  enum Kind { case willBecomeUnavailable, didBecomeUnavailable, didBecomeAvailable, other }

  private let kinds = Monitor<[Kind]>(.eventQueue, [])

  var all: [Kind] { kinds.read { $0 } }

  /// Waits until there are so many: they come after the change of state that they are about.
  func wait(for count: Int) {
    kinds.wait { (kinds, _) -> Void? in kinds.count >= count ? () : nil }
  }

  func add(_ event: DaemonEvent) {
    let kind: Kind =
      switch event {
      case .willBecomeUnavailable: .willBecomeUnavailable
      case .didBecomeUnavailable: .didBecomeUnavailable
      case .didBecomeAvailable: .didBecomeAvailable
      default: .other
      }
    kinds.update { $0.append(kind) }
  }
}

/// A time that passes only when it is told to. It lies a year ahead, so that no real wait for it ends.
final class StoppedClock: Sendable {
  private let time = Mutex(ContinuousClock.now + .seconds(365 * 86_400))

  var now: ContinuousClock.Instant { time.withLock { $0 } }

  func advance(by duration: Duration) { time.withLock { $0 += duration } }
}
