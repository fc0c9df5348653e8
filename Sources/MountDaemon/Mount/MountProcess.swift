import Cryptography
import FUSE
import FileSystem
import KeyManagement
import Logging
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// The life of a daemon: from a keybag and a device key to a mounted file system, until it is unmounted.
package enum MountProcess {
  /// Mounts a store, calls `ready`, and serves it; returns when it has been unmounted, or a standby is told to end.
  /// From `ready` on the process is confined (``Sandbox``): it can start no program.
  ///
  /// The calling process must have no thread but this one yet. `end` is for what ends the mount from another one.
  /// - Throws: `StoreError`, `KeyManagementError`, `SessionError`, or what the control socket fails with.
  package static func run(
    _ options: MountOptions, deviceKey: consuming VolumeDeviceKey, unmounter: Unmounter, log: Logger, end: MountEnd,
    ready: () -> Void
  ) throws {
    defer { unmounter.end() }
    // Before a program is started.
    var serviceSocket = ServiceManager.takeSocket()
    Memory.protectProcess()
    Process.blockEndingSignals()
    Process.raiseOpenFileLimit()
    Process.raiseFileSizeLimit()
    Process.cleansPagesOfOthers()
    Memory.setThreadUmask(0)
    if let warning = SecureHeap.warning {
      log.warning("\(warning)")
    } else if !SecureHeap.relock() {
      log.warning("memory for keys cannot be locked (see ulimit -l); it may be written to the swap")
    }

    guard let storeLock = try takeStore(options, log) else { return }
    try Store.requireAttributes(storeLock.root, path: options.backing)
    let keybag = try openKeybag(in: storeLock.root, deviceKey, isReadOnly: options.isReadOnly, log)
    let daemon = try Daemon(options: options, keybag: keybag, deviceKey: deviceKey, files: unmounter.files, log: log)

    let session = try Session(
      fileSystem: daemon.fileSystem, options: options.sessionOptions, hasOtherWriters: options.writers != .sole,
      threads: options.threads, counts: daemon.requests)
    let server = try ControlServer(
      mountPoint: options.mountPoint, backing: daemon.backing.status(), control: daemon, logger: log)
    defer { server.stop() }
    _ = daemon.trial.storeIfNil(server.derivation)
    let report = { @Sendable (part: String, error: Errno) in
      log.warning("the daemon keeps more rights than it needs", metadata: ["not": "\(part)", "error": "\(error)"])
    }
    let hold = latency(options)
    let choice = chooseTransport(options, hold)
    try reserveThreads(
      options, choice, hasServiceSocket: serviceSocket != nil,
      servesSeveralHosts: daemon.backing.mayServeSeveralHosts, report)
    try mount(session, at: options.mountPoint)
    defer { session.unmount() }
    let hasRings = daemon.makeRings(session, unmounter.files, choice)
    handOver(session, of: options.mountPoint, server, to: unmounter, hasRings: hasRings, log)
    daemon.publishState(in: server.location.directory)
    if !PageCacheLimits.raise(for: options.mountPoint) {
      log.debug("the kernel's limit of dirty pages stays as it is: only root may raise it")
    }
    if options.isConfined { Sandbox.enter(allowsRings: hasRings, report: report) }
    _ = daemon.session.storeIfNil(session)
    if daemon.backing.mayServeSeveralHosts {
      StoreWatch(daemon, storeLock.claim).start()
    }
    daemon.watchKeybag()
    daemon.watchMount(session)

    let sequence = LockSequence(
      fileSystem: daemon.fileSystem, session: session, mountPoint: options.mountPoint,
      controller: daemon.controller, patience: options.pushTimeout, log: log)
    defer { sequence.stop() }
    let lockThread = Thread(name: "lock") { daemon.machine.run(sequence) }
    if options.restPeriod != nil { Thread(name: "rest") { daemon.machine.watchRest() }.detach() }
    let lookedUp = daemon.tree.options.lookedUp
    // It may be closing a file of a store that does not answer: nobody waits for it.
    if let lookedUp { Thread(name: "looked-up", lookedUp.run).detach() }
    let rekeyThread = options.isReadOnly ? nil : daemon.startRekeying()
    var isMounted = false
    let claim = storeLock.claim
    session.serve(latency: hold) {
      isMounted = $0
      guard isMounted else {
        if unmounter.unmount(isLazy: true) { return }
        // Its threads would wait for ever. The kernel ends what is left of the mount.
        log.error("the mount could not be detached")
        Process.exit(1)
      }
      claim?.serves()
      server.start()
      if let socket = serviceSocket.take() { server.start(on: socket) }
      log.notice(
        "mounted",
        metadata: [
          "backing": "\(options.backing)", "mount point": "\(options.mountPoint)", "socket": "\(server.socketPath)",
        ])
      ready()
      // After that, since what a terminal has sent until then is not for the daemon.
      Thread(name: "signals") {
        endOnSignal(end, claim, daemon: daemon, session: session, server: server, unmounter: unmounter)
      }.detach()
      Thread.endReserve()
    }
    daemon.machine.state.published?.remove()
    lookedUp?.stop()
    daemon.tree.stopRekeys()
    rekeyThread?.join()
    daemon.tree.applyModificationTimes()
    daemon.tree.cleanClosedFiles()
    daemon.machine.stop()
    lockThread.join()
    guard isMounted else { throw SessionError.notAgreed }
    log.notice("unmounted", metadata: ["mount point": "\(options.mountPoint)"])
    storeLock.hold()
  }

  /// Takes the store, at once or, as a standby, once nobody else writes it and its file system answers. Returns `nil`
  /// if the process is told to end before.
  private static func takeStore(_ options: MountOptions, _ log: Logger) throws(StoreError) -> StoreLock? {
    var reason: StoreError?
    while true {
      do throws(StoreError) {
        // Anew each time: the file system may have been mounted again meanwhile.
        return try Store.lock(
          Store.open(options.backing), path: options.backing, for: .mount(isReadOnly: options.isReadOnly),
          isStandby: options.isStandby)
      } catch {
        guard options.isStandby, error.mayPass else { throw error }
        if error != reason {
          let level = if case .abandoned = error { Logger.Level.warning } else { Logger.Level.notice }
          log.log(level: level, "standing by", metadata: ["reason": "\(error)"])
        }
        reason = error
      }
      if Process.endingSignal(within: 1) != nil { return nil }
    }
  }

  /// Chooses how requests come, where that was left open and there is a choice, with processors kept from sleep as they
  /// will be.
  private static func chooseTransport(_ options: MountOptions, _ hold: WakeupLatency?) -> TransportChoice? {
    guard options.transport == nil, Session.kernelOffersRings == true else { return nil }
    hold?.hold(true)
    defer { hold?.hold(false) }
    return TransportChoice(WakeupCost.measure())
  }

  /// Starts the threads that the mount will have, all of them or none: one that could not be had once it is mounted
  /// would leave it half made. Each drops its own capabilities: this one's are needed until the rings are made.
  private static func reserveThreads(
    _ options: MountOptions, _ choice: TransportChoice?, hasServiceSocket: Bool, servesSeveralHosts: Bool,
    _ report: @escaping @Sendable (String, Errno) -> Void
  ) throws(SessionError) {
    let hasRings = options.transport != .device && Session.kernelOffersRings == true && choice?.usesRings != false
    // For the keybag and the mount, which are watched, invalidations, writes that are waited for, locks, signals,
    // rekeys or what was looked up, and one of the caller's.
    let needed =
      8 + ControlServer.threadCount
      + [
        hasServiceSocket, options.restPeriod != nil, servesSeveralHosts, servesSeveralHosts && options.isolation != nil,
      ]
      .count { $0 }
      + Session.threadCount(workers: options.threads, hasRings: hasRings)
    let available = Thread.reserve(needed) { [isConfined = options.isConfined] in
      if isConfined { Sandbox.dropCapabilities(report) }
    }
    guard available == needed else { throw .tooFewThreads(needed: needed, available: available) }
  }

  /// The keybag of a store that was not erased; what a change that was cut short has left is put right.
  static func openKeybag(
    in backing: borrowing Descriptor, _ deviceKey: borrowing VolumeDeviceKey, isReadOnly: Bool, _ log: Logger
  ) throws(KeyManagementError) -> Keybag {
    let file = try KeybagFile(backing: backing, host: deviceKey.host)
    let found = try Keybag(parsing: file.read(), deviceKey: deviceKey)
    let keybag = file.tombstone(of: found, deviceKey) ?? found
    do throws(KeyManagementError) {
      // A host leaves that to who can open the keybag.
      if !isReadOnly, !deviceKey.isOfHost { try file.repair(keybag, deviceKey: deviceKey) }
    } catch {
      log.warning("a change of keys is not finished", metadata: ["reason": "\(error.code)"])
    }
    if let time = keybag.erasureTime { throw .storeErased(at: time) }
    if let host = deviceKey.host, !keybag.hasHost(host) { throw .hostUnknown }
    if !isReadOnly { file.reserveAttempts() }
    return keybag
  }

  /// Mounts. For users other than root, fusermount3(1) does so only where they may write; but the owner may have made
  /// the directory one that nobody may write, so that no plaintext is left there while nothing is mounted.
  private static func mount(_ session: Session, at path: String) throws {
    let directory = try Descriptor.open(PathName(path), [.path, .directory])
    let status = try directory.status()
    let user = Process.identity.user
    guard user != 0, status.user == user, status.mode & 0o200 == 0 else { return try session.mount(at: path) }
    try directory.addingOwnerPermissions(0o200, notRestored: { (_, _) in }) {
      Result { () throws(SessionError) in try session.mount(at: path) }
    }.get()
  }

  /// What keeps processors from deep sleep, if that is to be done.
  private static func latency(_ options: MountOptions) -> WakeupLatency? {
    switch options.latency {
    case .low: try? WakeupLatency()
    case .automatic where WakeupLatency.isGuest: try? WakeupLatency(unlessOnBattery: true)
    case .automatic, .system: nil
    }
  }

  /// Gives the process beside this one what it takes to drop the kernel's pages if this one is killed.
  private static func handOver(
    _ session: Session, of mountPoint: String, _ server: ControlServer, to unmounter: Unmounter, hasRings: Bool,
    _ log: Logger
  ) {
    do throws(Errno) {
      guard let mount = try MountedFileSystem.at(mountPoint) else { throw .noSuchFileOrDirectory }
      let mark = PageRemovalMark(server.location, mount)
      mark.clear()
      try unmounter.keep(try session.connection(), mark, hasRings: hasRings)
    } catch {
      log.warning("should the daemon be killed, the kernel keeps pages of open files", metadata: ["error": "\(error)"])
    }
  }

  /// Unmounts when the process is told to end. Where somebody holds the file system, everything is locked, and what is
  /// still mounted is detached, before the process goes: what programs had written is on disk, and no key in memory.
  private static func endOnSignal(
    _ end: MountEnd, _ claim: WriterClaim?, daemon: Daemon, session: Session, server: ControlServer,
    unmounter: Unmounter
  ) {
    if let number = end.wait() { daemon.log.notice("told to end", metadata: ["signal": "\(number)"]) }
    _ = daemon.finishWrites(atMost: daemon.options.pushTimeout * 2)
    let isUnmounted = unmounter.unmount(isLazy: false)
    if isUnmounted, session.ends(within: .milliseconds(400)) { return }
    daemon.log.warning(
      isUnmounted
        ? "somebody still holds the file system: everything is locked, and it ends"
        : "the mount is busy: everything is locked, and it is detached")
    daemon.machine.cancelUnlocks()
    daemon.machine.withholdEverything()
    if !isUnmounted, !unmounter.unmount(isLazy: true) { daemon.log.error("the mount could not be detached") }
    daemon.tree.applyModificationTimes()
    claim?.leave()
    daemon.machine.state.published?.remove()
    server.stop()
    Process.exit(end.status)
  }
}
