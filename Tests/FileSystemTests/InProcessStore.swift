import BackingTree
import Contract
import Cryptography
import FUSE
import FileSystem
import InProcessKernel
import KeyManagement
import Logging
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage
import Testing

@testable import MountDaemon

/// A store in a temporary directory, and a daemon that serves it to a kernel in this process, without a mount: any user
/// can have one, and several tests can at once.
final class InProcessStore: Sendable {
  let directory: TemporaryDirectory
  private let storeID: StoreID
  let recoveryKey: RecoveryKeyText
  private let options: MountOptions
  private let running: Mutex<RunningDaemon>

  /// Makes a store, serves and unlocks it, calls `body`, and takes it all away again.
  static func with(
    defaultClass: ProtectionClass = .standard, _ change: (inout MountOptions) -> Void = { _ in },
    _ body: (InProcessStore) throws -> Void
  ) throws {
    let store = try InProcessStore(defaultClass, change)
    defer { store.daemon.end() }
    try store.unlock()
    try body(store)
  }

  private init(_ defaultClass: ProtectionClass, _ change: (inout MountOptions) -> Void) throws {
    directory = try TemporaryDirectory()
    let backing = try directory.makeDirectory("backing")
    // The lowest cost that the format allows.
    let made = try Store.create(
      in: backing, defaultClass: defaultClass, authenticatesContents: TestedStores.areAuthenticated,
      passcode: SecretBytes(Array("passcode".utf8)), eraseAfter: nil, deviceKeyFile: directory.path + "/device.key",
      cost: ScryptParameters(logN: 16, r: 8, p: 1))
    var options = MountOptions(backing: backing, mountPoint: directory.path + "/mount")
    options.threads = 3
    change(&options)
    (storeID, recoveryKey, self.options) = (made.storeID, made.recoveryKey, options)
    running = Mutex(try RunningDaemon(options, storeID, deviceKey: PathName(directory.path + "/device.key")))
  }

  var daemon: RunningDaemon { running.withLock { $0 } }
  var kernel: InProcessKernel { daemon.kernel }
  var fileSystem: ProtectedFileSystem { daemon.daemon.fileSystem }
  var tree: BackingTree { fileSystem.tree }
  var state: LockState { daemon.daemon.machine.state.lockState }

  /// Ends the daemon, and serves the store anew: before the first unlock.
  func restart(isRekeying: Bool = true) throws {
    daemon.end()
    let next = try RunningDaemon(
      options, storeID, deviceKey: PathName(directory.path + "/device.key"), isRekeying: isRekeying)
    running.withLock { $0 = next }
  }

  /// Gives a class a new key. Calls `body` after each directory.
  func rotate(_ fileClass: ProtectionClass, _ body: () throws -> Void = {}) throws {
    let rotation = try daemon.daemon.beginRotation(of: fileClass, with: .recoveryKey(recoveryKey.text.copy()))
    var failure: (any Error)?
    try withoutActuallyEscaping(body) { body in
      try rotation.run { _ in
        do { try body() } catch { failure = error }
        return failure == nil
      }
    }
    if let failure { throw failure }
  }

  /// The keybag on disk.
  func keybag() throws -> Keybag {
    let deviceKey = try DeviceKey.load(for: storeID, file: PathName(directory.path + "/device.key"))
    return try Keybag(parsing: KeybagFile(backing: Store.open(options.backing)).read(), deviceKey: deviceKey)
  }

  /// Waits until something holds, for 20 seconds at most.
  func wait(until isReached: () throws -> Bool) throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while try !isReached() {
      try #require(ContinuousClock.now < deadline, "it never came")
      Thread.sleep(microseconds: 1000)
    }
  }

  func unlock() throws { try daemon.daemon.unlock(.recoveryKey(recoveryKey.text.copy())) }

  /// Brings an unlocked store into a state.
  func enter(_ state: LockState) throws {
    let daemon = daemon.daemon
    switch state {
    case .beforeFirstUnlock: try restart()
    case .unlocked: break
    case .gracePeriod: try daemon.lock(gracePeriod: .seconds(600), includingInactive: false, wait: false)
    case .locked: try daemon.lock(gracePeriod: .zero, includingInactive: false, wait: true)
    case .inactive:
      try daemon.lock(gracePeriod: .zero, includingInactive: false, wait: true)
      daemon.machine.monitor.wait { (machine, _) -> Void? in machine.lockState == .inactive ? () : nil }
    }
  }
}

/// A daemon with all its threads, and the kernel that it serves.
final class RunningDaemon: Sendable {
  let daemon: Daemon
  let kernel: InProcessKernel
  private let sequence: LockSequence
  private let threads: Mutex<[ProtectfsIO.Thread]>
  private let lockThread: ProtectfsIO.Thread
  private let hasEnded = Mutex(false)

  init(_ options: MountOptions, _ storeID: StoreID, deviceKey file: PathName, isRekeying: Bool = true) throws {
    let deviceKey = try DeviceKey.load(for: storeID, file: file)
    let keybag = try Keybag(parsing: KeybagFile(backing: Store.open(options.backing)).read(), deviceKey: deviceKey)
    let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    let daemon = try Daemon(options: options, keybag: keybag, deviceKey: deviceKey, files: SharedNumbers(), log: log)
    let device = try DeviceSocket()
    let session = try Session(
      fileSystem: daemon.fileSystem, options: [], hasOtherWriters: options.writers != .sole, threads: options.threads,
      counts: daemon.requests)
    try session.connect(to: device.served)
    let sequence = LockSequence(
      fileSystem: daemon.fileSystem, session: session, mountPoint: options.mountPoint, controller: daemon.controller,
      patience: options.pushTimeout, log: log)
    lockThread = Thread(name: "lock") { daemon.machine.run(sequence) }
    threads = Mutex([Thread(name: "serve") { session.serve(latency: nil) }])
    kernel = try InProcessKernel(device)
    (self.daemon, self.sequence) = (daemon, sequence)
    if isRekeying { startRekeying() }
  }

  /// Starts the engine of rekeys, as a mount does.
  func startRekeying() { threads.withLock { $0.append(daemon.startRekeying()) } }

  deinit { end() }

  /// Unmounts, as far as there is a mount; returns when the daemon has ended.
  func end() {
    guard
      hasEnded.withLock({ hasEnded in
        defer { hasEnded = true }
        return !hasEnded
      })
    else { return }
    kernel.device.end()
    daemon.tree.stopRekeys()
    for thread in threads.withLock({ $0 }) { thread.join() }
    daemon.tree.applyModificationTimes()
    daemon.machine.stop()
    lockThread.join()
    sequence.stop()
  }
}

extension Daemon {
  func unlock(_ secret: borrowing UnlockSecret) throws(ControlError) { try unlock(secret, beginUnlock()) }
}
