import BackingTree
import Contents
import Cryptography
import FUSE
import FileSystem
import KeyManagement
import Logging
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// One mounted store: its keys, its file system, its lock, and those who listen.
package final class Daemon: DaemonControl {
  let options: MountOptions
  let backing: Descriptor
  let deviceKey: VolumeDeviceKey
  let keybag: RankedMutex<Keybag>
  /// Wrong passcodes, also where the store cannot be written to.
  let attempts = RankedMutex(.passcodeAttempts, PasscodeAttempts())
  /// On a host that was unlocked, what shows who has changed the keybag since.
  let hostSeal = RankedMutex<HostSealKey?>(.passcodeAttempts, nil)
  /// Whether the keys of an erased store have gone from memory; held while they go.
  let isErased = RankedMutex(.erasure, false)
  /// Held while the keybag is read, changed and put in place (`withKeybag`).
  let keybagFile = RankedMutex(.keybagFile, ())
  /// The last request of this mount's own that all hosts lock; 0: there was none.
  let ownHostLock = Atomic<UInt64>(0)
  /// What a secret is tried in, once there are clients.
  let trial = AtomicLazyReference<DerivationLock>()
  let controller: LockController
  let machine: LockMachine
  let events: EventHub
  let requests = RequestCounts()
  let transportReason = AtomicLazyReference<TransportReason>()
  /// Set before clients of the control socket are served.
  let session = AtomicLazyReference<Session>()
  let log: Logger
  let fileSystem: ProtectedFileSystem
  var tree: BackingTree { fileSystem.tree }

  package let owner: UInt32

  /// Composes the daemon of a store, in the state before the first unlock.
  init(
    options: MountOptions, keybag: Keybag, deviceKey: consuming VolumeDeviceKey, files: SharedNumbers, log: Logger
  ) throws {
    let backing = try Store.open(options.backing)
    let controller = LockController(
      keybag: keybag,
      noneKeys: try keybag.noneClassKeys(
        deviceKey: deviceKey, effaceable: KeybagFile(backing: backing).effaceableSecret(of: keybag)))
    let events = EventHub(log: log, logsPaths: options.logsPaths)
    let machine = LockMachine(
      gracePeriod: options.gracePeriod, lockDelay: options.lockDelay, inactivityPeriod: options.inactivityPeriod,
      restPeriod: options.restPeriod, controller: controller
    ) { events.send($0) }
    let layout = ContentsLayout(of: keybag.record, in: backing)
    if case .pages(let medium) = layout, medium.mayTear(4096) {
      log.warning("a power cut may make pages unreadable that are being written: the disk writes none as a whole")
    }
    fileSystem = try ProtectedFileSystem(
      backing: Store.open(options.backing), volume: VolumeKeys(deviceKey, storeID: keybag.storeID),
      controller: controller, observer: RefusalObserver(events: events, machine: machine),
      options: options.treeOptions(layout), files: files, log: log)
    self.backing = backing
    owner = Process.identity.user
    self.options = options
    self.log = log
    self.controller = controller
    self.events = events
    self.machine = machine
    self.keybag = RankedMutex(.currentKeybag, keybag)
    self.deviceKey = deviceKey
  }

  /// Starts to bring files under new keys, and goes on with what is pending.
  func startRekeying() -> ProtectfsIO.Thread {
    Thread(name: "rekey", stackSize: 1 << 20) { [tree] in RekeyEngine(tree).run() }
  }

  /// Has programs find the state of the mount without asking for it, in the directory of the control socket or, where
  /// that is on no tmpfs, in one that is.
  func publishState(in directory: String) {
    guard let mount = try? MountedFileSystem.at(options.mountPoint) else { return }
    for path in [directory, PublishedStates.lastDirectory(of: owner)] {
      do throws(Errno) {
        return machine.publish(try PublishedState(of: mount, machine.state.lockState, in: path))
      } catch {
        log.debug("the state is not published", metadata: ["directory": "\(path)", "error": "\(error)"])
      }
    }
  }

  // MARK: What the control socket asks for

  package func lock(gracePeriod: Duration?, includingInactive: Bool, wait: Bool) throws(ControlError) {
    let request = machine.requestLock(after: gracePeriod, includingInactive: includingInactive)
    // A write may go on since an earlier lock.
    var outcome: LockOutcome? = wait ? machine.state.lockOutcome.ongoing : LockOutcome()
    if let completedLocks = request.count {
      log.notice("locking", metadata: ["grace": "\((gracePeriod ?? options.gracePeriod).inSeconds) s"])
      if wait { outcome = machine.waitUntilLocked(after: completedLocks) }
    }
    if wait, includingInactive, outcome != nil { outcome = machine.waitUntilInactive() }
    guard let outcome else {
      throw ControlError(.lockCancelled, "the lock was cancelled by an unlock during the grace period")
    }
    if let error = outcome.error { throw error }
  }

  package func lockAll() throws(ControlError) {
    log.notice("locking everything")
    machine.cancelUnlocks()
    machine.lockEverything()
    if let error = machine.state.lockOutcome.error { throw error }
  }

  package func finishWrites() throws(ControlError) {
    if finishWrites(atMost: .seconds(600)) { return }
    throw ControlError(
      .failed,
      "the backing store does not take what programs wrote; the log names the files, and with --lazy it may be lost")
  }

  /// Waits for what the kernel is writing back, before the mount goes. Returns whether it was written.
  func finishWrites(atMost limit: Duration) -> Bool {
    guard let session = session.load() else { return true }
    let written = ProtectionClass.allCases.flatMap { tree.nodes.writers(in: $0) }
    let late = session.awaitCopies(
      of: Set(written.map { NodeID(rawValue: $0.number) }), patience: options.pushTimeout, atMost: limit)
    for node in written where late.contains(NodeID(rawValue: node.number)) {
      log.error("what was written to a file is not in the backing store", metadata: ["inode": "\(node.identity.inode)"])
    }
    return late.isEmpty
  }

  package func status() -> DaemonStatus {
    let state = machine.state
    let now = MonotonicClock.now
    let counts = tree.openFiles.counts
    let keybag = keybag.withLock { $0 }
    let erasure = keybag.record.erasureTime
    var status = DaemonStatus(
      state: state.lockState,
      secondsUntilRevoked: state.takesEffectAt.map { max(0, (now.duration(to: $0)).inSeconds) },
      secondsUntilInactive: state.expiresAt.map { max(0, (now.duration(to: $0)).inSeconds) },
      gracePeriod: options.gracePeriod.inSeconds, inactivityPeriod: options.inactivityPeriod.inSeconds,
      classes: ProtectionClass.allCases.map {
        ClassStatus(
          protectionClass: $0, key: erasure == nil ? controller.availability(of: $0) : .unavailable,
          openHandles: counts[$0] ?? 0)
      },
      defaultClass: keybag.defaultClass, backing: options.backing, mountPoint: options.mountPoint,
      storeID: keybag.storeID.description, owner: owner, processID: Process.number, version: protectfsVersion,
      isReadOnly: options.isReadOnly, isShared: options.isShared,
      knownInodes: tree.nodes.count, undecodableNames: tree.undecodableNameCount,
      refusals: events.refusals, requests: requests.byName, delayingClients: state.delays.count)
    let rekeys = tree.rekeyStatus
    status.pendingRekeys = rekeys.pending
    status.failedRekeys = rekeys.failed
    status.erased = erasure.map(KeyManagementError.date)
    status.secondsUntilRest = state.restsAt.map { max(0, now.duration(to: $0).inSeconds) }
    status.lockedRekeys = rekeys.withoutKey
    (status.transport, status.transportReason) = transport
    (status.host, status.hostClasses) = keybag.nameAndClasses(of: deviceKey.host)
    return status
  }

  package func subscribe(_ deliver: @escaping @Sendable (DaemonEvent) -> Void) -> SubscriptionID {
    machine.beginMonitoring(deliver) { events.broadcast.subscribe(deliver) }
  }

  package func unsubscribe(_ id: SubscriptionID) {
    events.broadcast.unsubscribe(id)
  }

  package func delayLock(_ announced: @escaping @Sendable (Duration) -> Void) -> LockDelayID {
    machine.delayLock(announced)
  }

  package func releaseDelay(_ delay: LockDelayID) {
    machine.releaseDelay(delay)
  }
}
