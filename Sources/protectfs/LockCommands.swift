import ArgumentParser
import MountDaemon
import ProtectfsClient

/// What a lock takes beyond the classes of every lock. It has no grace period.
enum LockExtent: EnumerableFlag, Sendable {
  case inactive, everyClass

  static func help(for extent: LockExtent) -> ArgumentHelp? {
    switch extent {
    case .inactive: "Lock class CX too, at once."
    case .everyClass: "Lock every class but 'none', also for open files, as before the first unlock, at once."
    }
  }

  /// Returns when the lock has taken effect.
  func lock(_ daemon: inout DaemonConnection) throws(ControlError) {
    switch self {
    case .inactive: try daemon.lockWithInactive()
    case .everyClass: try daemon.lockAll()
    }
  }
}

/// `protectfs lock`
struct LockCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "lock",
    abstract: "Lock a mount.",
    discussion: """
      Announces the lock, waits for the grace period, then makes files of classes A and B unusable and wipes the keys \
      of these classes; class CX follows after its own period. Returns when the lock has taken effect. An unlock \
      during the grace period cancels the lock, and the exit status is 16. Programs and hooks of the user may delay \
      the lock beyond the grace period, for the time of the mount option lock_delay at most, but not with --now.

      With --inactive or --every-class, the lock takes more classes, and has no grace period, as with --now: for a machine \
      that goes to sleep, or is left alone for long.

      With --all, the mounts are locked at the same time, and also file systems that are mounted elsewhere (in another \
      mount namespace, or by a path that was renamed since), as long as their daemons run and have their sockets where \
      this process finds them. For root, a mount in a mount namespace with a /run of its own, as in a container, counts \
      as one that failed. What fails on one is reported, and keeps none of the others \
      from being locked; the exit status is that of the first of the mounts that failed, in the order of 'status'.

      With --all-hosts, the other hosts of the store lock too (see 'protectfs host'), at once as with --now. Each says so \
      when its lock has taken effect; those that have not after the timeout are named, and the exit status is 15. A host \
      that is cut off cannot be reached: it locks itself if it has the mount option isolation, so give a timeout that is \
      longer than that.

      Examples:
        protectfs lock ~/private
        protectfs lock --now ~/private
        protectfs lock --all-hosts --every-class /srv/private
        protectfs lock --all --now
        protectfs lock --all --inactive
        protectfs lock --grace 60 --no-wait ~/private
      """)

  @OptionGroup var choice: MountChoice

  @Flag(help: "Lock without a grace period; no program delays it.")
  var now = false

  // A negative number is no option.
  @Option(
    parsing: .unconditional,
    help: .init("This grace period, instead of the mount's own; not with --now.", valueName: "seconds"))
  var grace: Double?

  @Flag(help: "Return at once, not when the lock has taken effect.")
  var noWait = false

  @Flag(exclusivity: .exclusive)
  var extent: LockExtent?

  @Flag(help: "Have the other hosts of the store lock too.")
  var allHosts = false

  @Option(help: .init("With --all-hosts: how long the others are waited for, 30 if not given.", valueName: "seconds"))
  var timeout: Double?

  func validate() throws {
    if allHosts && (choice.all || grace != nil || noWait) {
      throw ValidationError("--all-hosts is for one store, and at once: leave out --all, --grace and --no-wait.")
    }
    if let timeout, !allHosts || !(0...3600).contains(timeout) {
      throw ValidationError("Give --timeout with --all-hosts, in seconds, from 0 to 3600.")
    }
    if extent != nil && (grace != nil || noWait) {
      throw ValidationError("--inactive and --every-class lock at once: leave out --grace and --no-wait.")
    }
    if now && grace != nil { throw ValidationError("Give --now or --grace, not both.") }
    if let grace, !(0...86_400).contains(grace) { throw ValidationError("Give --grace in seconds, from 0 to 86400.") }
  }

  func run() throws {
    let period = now ? Duration.zero : grace.map { Duration.seconds($0) }
    let isWaiting = !noWait
    let lock = { @Sendable [extent] (daemon: inout DaemonConnection) throws in
      if let extent { return try extent.lock(&daemon) }
      try daemon.lock(gracePeriod: period, waiting: isWaiting)
    }
    try choice.reporting {
      guard !allHosts else { return try choice.withOne(for: "lock", lockHosts) }
      guard choice.all else { return try choice.withOne(for: "lock", persists: true, lock) }
      let all = try UserMounts(includingDaemons: true)
      all.lockTogether(lock)
      all.reportUnreached("protectfs lock --all")
      try all.finish(of: "locked")
    }
  }

  private func lockHosts(_ daemon: inout DaemonConnection) throws {
    let silent = try daemon.lockHosts(
      inactive: extent == .inactive, everyClass: extent == .everyClass, timeout: .seconds(timeout ?? 30))
    guard !silent.isEmpty else { return }
    throw CommandFailure(
      .partial,
      "locked here, but not known to be locked elsewhere: \(silent.map(\.printable).joined(separator: ", ")). Each is "
        + "off, has not mounted the store, or was not reached in time")
  }
}

/// `protectfs unlock`
struct UnlockCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "unlock",
    abstract: "Unlock a mount.",
    discussion: """
      Unlocks a mount with one of the store's protectors: by default a passcode, which is asked for on the terminal. \
      After some wrong passcodes the next unlock attempt is refused for a while, and the exit status is 20. A lock that \
      is requested while the passcode is being checked cancels the unlock, and the exit status is 27.

      With --all, the passcode is asked for once, and tried once at each mount that is not unlocked. Where it is not \
      the passcode of a store, that store counts a wrong one, as always: use --all only where stores share a passcode. \
      What fails on one mount is reported, and keeps none of the others from being unlocked; the exit status is that \
      of the first of the mounts that failed, in the order of 'status'.

      Examples:
        protectfs unlock ~/private
        protectfs unlock --all
        protectfs unlock --passcode-command 'pass show private' ~/private
        protectfs unlock --recovery-key ~/private
        protectfs unlock --key-file /media/stick/private.key ~/private
      """)

  @OptionGroup var choice: MountChoice

  @OptionGroup var opening: OpeningOptions

  func run() throws {
    try choice.reporting {
      guard !choice.all else { return try unlockAll() }
      // Connects first: nobody should type a passcode to learn that nothing is mounted.
      try choice.withOne(for: "unlock") { daemon in
        _ = try daemon.status()
        try daemon.unlock(with: opening.read())
      }
    }
  }

  private func unlockAll() throws {
    let all = try UserMounts()
    var locked: [Int] = []
    for index in all.mounts.indices {
      all.attempt(index) { daemon in if try daemon.status().state != .unlocked { locked.append(index) } }
    }
    if !locked.isEmpty {
      let secret = try opening.read()
      // One after the other: each takes the memory of a key derivation. A lock that cancels one comes after the
      // command, and before what the command has not done yet.
      var cancellation: ControlError?
      for index in locked {
        all.attempt(index) { daemon in
          if let cancellation { throw cancellation }
          do throws(ControlError) {
            try daemon.unlock(with: secret)
          } catch {
            if error.code == .unlockCancelled { cancellation = error }
            throw error
          }
        }
      }
    }
    try all.finish(of: "unlocked")
  }
}
