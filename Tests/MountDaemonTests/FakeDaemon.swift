import Cryptography
import Glibc
import KeyManagement
import Logging
import ProtectfsClient
import ProtectfsPolicy
import StoreFormat
import Synchronization

@testable import MountDaemon

/// A daemon without a file system. It records the calls that it gets.
final class FakeDaemon: DaemonControl {
  struct State {
    var lockState = LockState.beforeFirstUnlock
    var passcode = "secret"
    var recoveryKey = "RECO-VERY"
    var keyFile = [UInt8](repeating: 0xA5, count: 32)
    var locks: [(Duration?, Bool)] = []
    /// Other calls, one per line.
    var changes: [String] = []
  }

  let owner: UInt32
  let state = Mutex(State())
  let broadcast = EventBroadcast()
  let subscriptions = Mutex(0)
  let delays = Mutex(LockDelays(limit: .seconds(7)))

  init(owner: UInt32 = geteuid()) {
    self.owner = owner
  }

  func status() -> DaemonStatus {
    DaemonStatus(
      state: state.withLock { $0.lockState }, gracePeriod: 10, inactivityPeriod: 600,
      classes: ProtectionClass.allCases.map { ClassStatus(protectionClass: $0, key: .available, openHandles: 2) },
      defaultClass: .standard, backing: "/backing", mountPoint: "/mount", storeID: "id", owner: owner,
      processID: getpid(), version: "1", delayingClients: delays.withLock { $0.count })
  }

  func lock(gracePeriod: Duration?, includingInactive: Bool, wait: Bool) throws(ControlError) {
    state.withLock {
      $0.locks.append((gracePeriod, wait))
      $0.lockState = .locked
    }
    broadcast.send(.didBecomeUnavailable(classes: [.complete]))
  }

  func lockAll() throws(ControlError) {
    state.withLock {
      $0.changes.append("lock all")
      $0.lockState = .beforeFirstUnlock
    }
  }

  func finishWrites() {
    state.withLock { $0.changes.append("finish writes") }
  }

  func beginUnlock() -> UnlockBeginning { UnlockBeginning(lockRequests: 0) }

  func unlock(
    _ secret: borrowing UnlockSecret, _ beginning: UnlockBeginning, isCounted: Bool
  ) throws(ControlError) {
    if !isCounted { state.withLock { $0.changes.append("login") } }
    guard isRight(secret) else { throw ControlError(.wrongPasscode, "the passcode is wrong") }
    state.withLock { $0.lockState = .unlocked }
    broadcast.send(.didBecomeAvailable(classes: [.complete]))
  }

  func changePasscode(
    from secret: borrowing UnlockSecret, to newPasscode: consuming SecretBytes, isCounted: Bool
  ) throws(ControlError) {
    if !isCounted { state.withLock { $0.changes.append("login") } }
    guard isRight(secret) else { throw ControlError(.wrongPasscode, "the passcode is wrong") }
    let text = newPasscode.text
    state.withLock { $0.passcode = text }
  }

  func addKey(
    _ new: consuming UnlockSecret, label: String, with secret: borrowing UnlockSecret
  ) throws(ControlError) {
    try require(secret)
    let text = Self.text(new)
    state.withLock { $0.changes.append("add \(text) as \(label)") }
  }

  func removeKey(_ id: [UInt8], with secret: borrowing UnlockSecret) throws(ControlError) {
    try require(secret)
    state.withLock { $0.changes.append("remove \(id.hexadecimal)") }
  }

  func addHost(
    _ code: borrowing SecretBytes, classes: [ProtectionClass]?, with secret: borrowing UnlockSecret
  ) throws(ControlError) {
    try require(secret)
    let text = unsafe code.withBytes { unsafe String(decoding: $0, as: UTF8.self) }
    let letters = classes.map { $0.map(\.letter).joined() } ?? "as asked"
    state.withLock { $0.changes.append("host \(text) \(letters)") }
  }

  func setHost(
    _ id: [UInt8], classes: [ProtectionClass], with secret: borrowing UnlockSecret
  ) throws(ControlError) {
    try require(secret)
    let letters = classes.map(\.letter).joined()
    state.withLock { $0.changes.append("host \(id.hexadecimal) \(letters)") }
  }

  func lockHosts(_ content: HostLockRecord.Content, within time: Duration) throws(ControlError) -> [String] {
    state.withLock { $0.changes.append("lock hosts \(content) \(time)") }
    return ["web2"]
  }

  func beginRotation(
    of fileClass: ProtectionClass, with secret: borrowing UnlockSecret
  ) throws(ControlError) -> any RotationControl {
    try require(secret)
    state.withLock { $0.changes.append("rotate \(fileClass.name)") }
    return FakeRotation()
  }

  func prepareErasure() {}

  func erase(_ fileClass: ProtectionClass, with secret: borrowing UnlockSecret) throws(ControlError) {
    try require(secret)
    state.withLock { $0.changes.append("erase \(fileClass.name)") }
  }

  func eraseAll() throws(ControlError) {
    state.withLock { $0.changes.append("erase all") }
  }

  func subscribe(_ deliver: @escaping @Sendable (DaemonEvent) -> Void) -> SubscriptionID {
    subscriptions.withLock { $0 += 1 }
    deliver(.monitoringBegan(status().state))
    return broadcast.subscribe(deliver)
  }

  func unsubscribe(_ subscription: SubscriptionID) {
    broadcast.unsubscribe(subscription)
    subscriptions.withLock { $0 -= 1 }
  }

  func delayLock(_ announced: @escaping @Sendable (Duration) -> Void) -> LockDelayID {
    delays.withLock { $0.register(announced) }
  }

  func releaseDelay(_ delay: LockDelayID) {
    _ = delays.withLock { $0.release(delay) }
  }

  /// Does what the announcement of a lock does.
  func announceLock(gracePeriod: Duration) {
    delays.withLock { $0.tell(at: .now, gracePeriod: gracePeriod) }
  }

  private func require(_ secret: borrowing UnlockSecret) throws(ControlError) {
    guard isRight(secret) else { throw ControlError(.wrongPasscode, "the passcode is wrong") }
  }

  private func isRight(_ secret: borrowing UnlockSecret) -> Bool {
    switch secret {
    case .tpmPasscode: false
    case .passcode(let passcode): passcode.text == state.withLock { $0.passcode }
    case .recoveryKey(let key): key.text == state.withLock { $0.recoveryKey }
    case .keyFile(let content): content.array == state.withLock { $0.keyFile }
    }
  }

  private static func text(_ secret: borrowing UnlockSecret) -> String {
    switch secret {
    case .passcode(let passcode): "passcode \(passcode.text)"
    case .tpmPasscode(let passcode): "TPM passcode \(passcode.text)"
    case .recoveryKey(let key): "recovery key \(key.text)"
    case .keyFile(let content): "key file of \(content.count) bytes"
    }
  }
}

/// A rotation of three files.
private struct FakeRotation: RotationControl {
  func run(_ report: @escaping (RotationStatus) -> Bool) throws(ControlError) {
    for files in 1...3 {
      let status = RotationStatus(files: files, rewrapped: files, damaged: 0, isFinished: files == 3)
      guard report(status) else { throw ControlError(.rotationInterrupted, "interrupted") }
    }
  }
}

extension SecretBytes {
  /// The bytes as text; for tests only, since it makes a copy.
  var text: String { unsafe withBytes { unsafe String(decoding: $0, as: UTF8.self) } }

  /// The bytes; for tests only.
  var array: [UInt8] { unsafe withBytes { unsafe Array($0) } }
}

extension FakeDaemon {
  /// Calls `body` with a daemon and its control socket.
  static func withServer(_ body: (FakeDaemon, ControlServer) throws -> Void) throws {
    let daemon = FakeDaemon()
    let server = try ControlServer(
      mountPoint: "/tests/\(UInt64.random(in: 0...UInt64.max))", control: daemon,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    server.start()
    defer { server.stop() }
    try body(daemon, server)
  }
}
