import ArgumentParser
import ProtectfsIO
import SystemBus

/// `protectfs session`
struct SessionCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "session",
    abstract: "Lock the mounts of this user when the screen locks and the machine sleeps, until ended.",
    discussion: """
      Follows logind (or elogind) and the screen saver of the desktop, and locks all mounts of this user

        at screen lock   when logind asks a session of the user to lock itself
                         ('loginctl lock-session'), when a session says that it is
                         locked (LockedHint), and when a screen saver begins
                         (org.freedesktop.ScreenSaver, org.gnome.ScreenSaver)
        before sleep     classes A, B and CX, without any period. The sleep is
                         delayed until their keys are wiped, for the time at most
                         that logind grants (InhibitDelayMaxSec=, 5 seconds)

      Both are locks without a grace period, as 'lock --now': they are announced, but neither programs nor hooks delay \
      them. Nothing is ever unlocked. A session that is locked already when this starts, or when logind does, counts. \
      When this ends, the mounts stay as they are.

      There is a unit for it: 'systemctl --user enable --now protectfs-session'. It tells systemd when it is ready. \
      What it does is said on standard error. The exit status is 0 after SIGTERM or SIGINT, and 1 where the system bus \
      cannot be reached or is lost. Without logind it waits for one.

      Examples:
        protectfs session
        protectfs session --grace 30 --sleep-locks-all
      """)

  @Option(help: .init("Give programs this grace period at screen lock. Sleep has none.", valueName: "seconds"))
  var grace = 0.0

  @Flag(help: "Before sleep, lock every class but 'none', also for open files, as before the first unlock.")
  var sleepLocksAll = false

  @Flag(help: "Say what is heard, too.")
  var verbose = false

  func validate() throws {
    if !(0...86_400).contains(grace) { throw ValidationError("Give --grace in seconds, from 0 to 86400.") }
  }

  func run() throws {
    try Process.enterRoot()
    Process.blockEndingSignals()
    Thread(name: "signals") {
      _ = Process.waitForEndingSignal()
      Process.exitAtOnce(ExitStatus.success.rawValue)
    }.detach()
    do throws(BusError) {
      try SessionAgent(gracePeriod: .seconds(grace), sleepLocksAll: sleepLocksAll, isVerbose: verbose).run()
    } catch {
      throw CommandFailure(.failure, error.description)
    }
  }
}
