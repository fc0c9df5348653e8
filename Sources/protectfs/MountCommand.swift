import ArgumentParser
import Hooks
import MountDaemon
import ProtectfsIO
import StoreFormat
import SystemPackage

/// `protectfs mount`
struct MountCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "mount",
    abstract: "Mount a store.",
    discussion: """
      Mounts the store of a backing directory, locked: only files of class D can be read until it is unlocked. A daemon \
      serves the mount until it is unmounted; it logs to the journal, or to a file. A mount point whose daemon was killed \
      is cleaned up first. With the recovery key, the store's device key is recovered too, and kept beside the machine's \
      own for this and later mounts.

      Mount options, which mount.fuse.protectfs(8) describes:
        grace=S             seconds between 'lock' and its effect (10)
        lock_delay=S        seconds for which programs may delay a lock, counted
                            from its announcement (10; 0: none may)
        push_timeout=S      seconds for which a lock waits for a backing store that
                            does not answer, from its last answer to a write (10)
        inactive=S          seconds for which class CX outlives a lock (600)
        at_rest=72h         when locked for so long without an unlock, lock every
                            class, as before the first unlock (10m to 30d; off)
        replace_class=keep  a file that replaces another, or gets the name that
                            one has left, takes the class that was set for that
                            one (move: it does not)
        remove_locked       locked files can be removed, and replaced by others,
                            as on iOS; programs that save by removing the old
                            file first, or ignore errors, then lose it
        shared              cache nothing; no second mount may write all the same
        ro                  read-only
        standby             with --foreground, wait until no other host writes the
                            store, and take over
        isolation=S         lock every class when the file system of the store,
                            where it may serve several hosts, has not answered
                            for so many seconds (off)
        remount             with ro or rw, make a mount read-only, or writable
                            again; only root may
        allow_other         other users may use the mount
        nonempty            the mount point may have something in it
        threads=N           threads that serve requests (8)
        transport=auto      take the kernel's requests through io_uring where the
                            kernel allows it and waking a processor takes long,
                            else from /dev/fuse (device: always from there;
                            io_uring: log why, where it is not allowed)
        latency=auto        while requests come fast, keep the processors of a
                            virtual machine on mains power from deep sleep; only
                            root may (low: those of any machine, always; system:
                            never)
        sandbox=off         the daemon keeps privileges that it does not need, so
                            that it can be traced
        hooks=DIR           run the scripts in DIR (off: none)
        log_file=F          log to a file
        log_paths           name the files that were refused in the log
        device_key=F        use this device key file
      Other options go to libfuse and the kernel; those for mount(8) alone are ignored.

      Examples:
        protectfs mount --unlock ~/.private ~/private
        protectfs mount -o grace=30,ro /srv/store /mnt
        mount -t fuse.protectfs /srv/store /mnt -o allow_other
      """)

  @Argument(help: .init("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @Argument(help: .init("An empty directory.", valueName: "mount-point"), completion: .directory)
  var mountPoint: String

  @Option(
    name: .customShort("o", allowingJoined: true),
    help: .init("Mount options, separated by commas.", valueName: "options"),
    completion: .custom { (_, _, value) in MountOptionNames.candidates(for: value) })
  var options: [String] = []

  @Flag(name: [.customShort("f"), .long], help: "Stay in the foreground, and log to standard error.")
  var foreground = false

  @Flag(
    help: """
      Unlock as soon as it is mounted; implied by the options that give a protector. A terminal is asked three times. \
      If that fails, the store stays mounted, but locked; with --foreground it is unmounted.
      """)
  var unlock = false

  @OptionGroup var opening: OpeningOptions

  // A negative number is no option.
  @Option(parsing: .unconditional, help: .init("The same as -o grace=S.", valueName: "seconds"))
  var grace: Double?

  @Option(help: .init("The same as -o log_file=F.", valueName: "file"), completion: .file())
  var logFile: String?

  @Option(
    name: .customLong("device-key"), help: .init("The same as -o device_key=F.", valueName: "file"),
    completion: .file())
  var deviceKeyFile: String?

  func validate() throws {
    if let grace, !(0...86_400).contains(grace) { throw ValidationError("Give --grace in seconds, from 0 to 86400.") }
  }

  func run() throws {
    let list = try MountOptionList(options)
    var options = list.mount
    for option in options.fuseOptions {
      guard let meant = MountOptionNames.meant(by: option) else { continue }
      throw CommandFailure(.usage, "'\(option.printable)' is no mount option; did you mean '\(meant)'?")
    }
    if list.isRemount { return try Remount.run(mountPoint, isReadOnly: options.isReadOnly) }
    if options.isStandby, !foreground || options.isReadOnly {
      throw CommandFailure(
        .usage, "'standby' waits for the writer's place: it needs --foreground, as in a service, and goes with no 'ro'")
    }
    // There has to be a store that this version understands.
    let (path, storeID) = try awaitingFileSystem(options.isStandby) {
      let path = try CanonicalPath.ofBacking(backing)
      return (path, try StoreSummary.read(path).storeID)
    }
    options.backing = path
    try MountPoint.requireFUSE(allowsOthers: options.allowsOthers)
    options.mountPoint = try MountPoint.checked(
      mountPoint, backing: options.backing, coversContents: list.coversContents)
    try MountPoint.requireNotMounted(backing: options.backing, isReadOnly: options.isReadOnly)
    if let grace { options.gracePeriod = .seconds(grace) }
    let launch = MountLaunch(
      options: options, storeID: storeID,
      deviceKeyFile: try (deviceKeyFile ?? list.deviceKeyFile).map { try Self.absolute($0) },
      logFile: try (logFile ?? list.logFile).map { try Self.absolute($0) })

    let unlocking = MountUnlocking(launch, opening, isWanted: unlock || opening.isGiven)
    let hooks = try Self.hookDirectory(list.hooks)
    let end = MountEnd()
    if foreground {
      let runner = try hooks.map { try launch.startHooks($0, keepsError: true) }
      let unmounter = try Unmounter(mountPoint: options.mountPoint)
      try unlocking.recoverDeviceKey()
      try unlocking.runCommand()
      try launch.serve(.standardError, unmounter, end) {
        runner?.tellMounted()
        Thread(name: "unlock") { unlocking.runInDaemon(end) }.detach()
      }
      if end.status != 0 { throw ExitCode(end.status) }
    } else {
      try MountLaunch.detach {
        try unlocking.recoverDeviceKey()
      } serve: { ready in
        let runner = try hooks.map { try launch.startHooks($0, keepsError: false) }
        try launch.serve(.system, Unmounter(mountPoint: launch.options.mountPoint), end) {
          runner?.tellMounted()
          ready()
        }
      }
      try unlocking.runBesideDaemon()
    }
  }

  /// Reads a store. A standby waits while its file system does not answer: where its host was cut off, it is started
  /// again then.
  private func awaitingFileSystem<Result>(_ isStandby: Bool, _ read: () throws -> Result) throws -> Result {
    var reason: Errno?
    while true {
      do { return try read() } catch {
        guard isStandby else { throw error }
        // It has just come to answer.
        guard let silence else { return try read() }
        // Between two mounts of it nothing is there.
        guard silence.isOfASilentServer || reason != nil && silence == .noSuchFileOrDirectory else { throw error }
        if silence != reason { CommandFailure.report("standing by: \(backing.printable): \(silence)") }
        reason = silence
      }
      MonotonicClock.sleep(microseconds: 1_000_000)
    }
  }

  /// Why the keybag cannot be read; `nil` where it can.
  private var silence: Errno? {
    do throws(Errno) {
      let directory = try Descriptor.open(PathName(backing), [.readOnly, .directory])
      do throws(Errno) {
        let keybag = try directory.open(PathName("\(NameEncoding.storeDirectory)/keybag"), [.readOnly, .nonBlocking])
        _ = try keybag.asOnServer().readAll(limit: 1)
        return nil
      } catch {
        // A disk that is damaged stays so.
        return error == .ioError && !directory.mayServeSeveralHosts ? nil : error
      }
    } catch {
      return error
    }
  }

  /// The hook directory; `nil` where there is none, or none is wanted.
  private static func hookDirectory(_ option: String?) throws(CommandFailure) -> HookDirectory? {
    switch option {
    case "off": nil
    case .some(let path): try HookDirectory.of(path)
    case .none: try? HookDirectory.of(HookDirectory.defaultPath)
    }
  }

  /// An absolute path, since the daemon changes its directory. The file may not exist yet.
  private static func absolute(_ path: String) throws(CommandFailure) -> String {
    path.hasPrefix("/") ? path : "\(try CanonicalPath.of("."))/\(path)"
  }
}
