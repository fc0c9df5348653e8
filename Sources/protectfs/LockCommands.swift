import ArgumentParser
import MountDaemon
import ProtectfsClient

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

      Examples:
        protectfs lock ~/private
        protectfs lock --now ~/private
        protectfs lock --grace 60 --no-wait ~/private
      """)

  @Argument(
    help: .init("Where the store is mounted, or its backing directory.", valueName: "mount-point"),
    completion: .directory)
  var mountPoint: String

  @Flag(help: "Lock without a grace period; no program delays it.")
  var now = false

  // A negative number is no option.
  @Option(
    parsing: .unconditional,
    help: .init("This grace period, instead of the mount's own; not with --now.", valueName: "seconds"))
  var grace: Double?

  @Flag(help: "Return at once, not when the lock has taken effect.")
  var noWait = false

  func validate() throws {
    if now && grace != nil { throw ValidationError("Give --now or --grace, not both.") }
    if let grace, !(0...86_400).contains(grace) { throw ValidationError("Give --grace in seconds, from 0 to 86400.") }
  }

  func run() throws {
    let period = now ? Duration.zero : grace.map { Duration.seconds($0) }
    try DaemonPath.withEach(of: mountPoint) { daemon in try daemon.lock(gracePeriod: period, waiting: !noWait) }
  }
}

/// `protectfs unlock`
struct UnlockCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "unlock",
    abstract: "Unlock a mount.",
    discussion: """
      Unlocks a mount with one of the store's protectors: by default a passcode, which is asked for on the terminal. \
      After some wrong passcodes the next unlock attempt is refused for a while, and the exit status is 20.

      Examples:
        protectfs unlock ~/private
        protectfs unlock --passcode-command 'pass show private' ~/private
        protectfs unlock --recovery-key ~/private
        protectfs unlock --key-file /media/stick/private.key ~/private
      """)

  @Argument(
    help: .init("Where the store is mounted, or its backing directory.", valueName: "mount-point"),
    completion: .directory)
  var mountPoint: String

  @OptionGroup var opening: OpeningOptions

  func run() throws {
    // Connects first: nobody should type a passcode to learn that nothing is mounted.
    try DaemonPath.withEach(of: mountPoint) { daemon in
      _ = try daemon.status()
      try daemon.unlock(with: opening.read())
    }
  }
}
