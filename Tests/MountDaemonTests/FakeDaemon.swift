import Cryptography
import DataProtection
import Glibc
import Synchronization

@testable import MountDaemon

/// A daemon without a file system: it records what it is asked for.
final class FakeDaemon: DaemonControl {
  struct State {
    var lockState = LockState.beforeFirstUnlock
    var passcode = "secret"
    var recoveryKey = "RECO-VERY"
    var locks: [(Duration?, Bool)] = []
  }

  let owner: UInt32
  let state = Mutex(State())
  let broadcast = EventBroadcast()
  let subscriptions = Mutex(0)

  init(owner: UInt32 = geteuid()) {
    self.owner = owner
  }

  func status() -> DaemonStatus {
    DaemonStatus(
      state: state.withLock { $0.lockState }, gracePeriod: 10, inactivityPeriod: 600,
      classes: ProtectionClass.allCases.map { ClassStatus(protectionClass: $0, key: .available, openHandles: 2) },
      defaultClass: .standard, backing: "/backing", mountPoint: "/mount", storeID: "id", owner: owner,
      processID: getpid(), version: "1")
  }

  func lock(gracePeriod: Duration?, wait: Bool) throws(ControlError) {
    state.withLock {
      $0.locks.append((gracePeriod, wait))
      $0.lockState = .locked
    }
    broadcast.send(.didBecomeUnavailable(classes: [.complete]))
  }

  func unlock(_ secret: consuming UnlockSecret) throws(ControlError) {
    guard isRight(secret) else { throw ControlError(.wrongPasscode, "the passcode is wrong") }
    state.withLock { $0.lockState = .unlocked }
    broadcast.send(.didBecomeAvailable(classes: [.complete]))
  }

  func changePasscode(from secret: consuming UnlockSecret, to newPasscode: consuming SecretBytes) throws(ControlError) {
    guard isRight(secret) else { throw ControlError(.wrongPasscode, "the passcode is wrong") }
    let text = newPasscode.text
    state.withLock { $0.passcode = text }
  }

  func subscribe(_ deliver: @escaping @Sendable (DaemonEvent) -> Void) -> SubscriptionID {
    subscriptions.withLock { $0 += 1 }
    return broadcast.subscribe(deliver)
  }

  func unsubscribe(_ subscription: SubscriptionID) {
    broadcast.unsubscribe(subscription)
    subscriptions.withLock { $0 -= 1 }
  }

  private func isRight(_ secret: consuming UnlockSecret) -> Bool {
    switch consume secret {
    case .passcode(let passcode): passcode.text == state.withLock { $0.passcode }
    case .recoveryKey(let key): key.text == state.withLock { $0.recoveryKey }
    }
  }
}

extension SecretBytes {
  /// The bytes as text; for tests only, since it makes a copy.
  var text: String { unsafe withBytes { unsafe String(decoding: $0, as: UTF8.self) } }
}
