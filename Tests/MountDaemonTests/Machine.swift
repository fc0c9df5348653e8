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
final class Machine: Sendable, Revocation {
  let lock: LockMachine
  private let classes = Mutex<[ProtectionClass]>([])
  private let told: Kinds
  private let isStalled = Monitor(.test, false)
  private let broadcast: EventBroadcast

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
    let broadcast = EventBroadcast()
    lock = LockMachine(
      gracePeriod: .seconds(10), lockDelay: lockDelay, inactivityPeriod: .seconds(600),
      controller: LockController(
        keybag: keybag, noneKeys: try keybag.noneClassKeys(deviceKey: deviceKey, effaceable: .absent()))
    ) {
      told.add($0)
      broadcast.send($0)
    }
    self.told = told
    self.broadcast = broadcast
  }

  func unlock() {
    repeat { lock.waitUntilUnlockable() } while !lock.unlock([:])
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

  /// Makes the revocation wait from now on.
  func stall() { isStalled.update { $0 = true } }

  func goOn() { isStalled.update { $0 = false } }

  func run(_ classes: [ProtectionClass], isEnding: Bool) -> LockOutcome {
    isStalled.wait { (isStalled, _) -> Void? in isStalled ? nil : () }
    self.classes.withLock { $0 += classes }
    return LockOutcome()
  }

  func drop(_ nodes: [NodeID]) {}
}

/// The kinds of events in their order.
final class Kinds: Sendable {
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
