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
                         (org.freedesktop.ScreenSaver, or of gnome, cinnamon,
                         mate or xfce). Others (swaylock, i3lock) announce
                         nothing: run 'protectfs lock --all --now' before
        before sleep     classes A, B and CX, without any period. The sleep is
                         delayed until their keys are wiped, for the time at most
                         that logind grants (InhibitDelayMaxSec=, 5 seconds)

      Both are locks without a grace period, as 'lock --now': they are announced, but neither programs nor hooks delay \
      them. Nothing is ever unlocked. A session or a screen saver that is locked already when this starts, or when \
      logind does, counts. Mounts of root are not this user's: the service protectfs-sleep locks these, before sleep. \
      When this ends, the mounts stay as they are.

      Notifications on the desktop say when programs delay a lock beyond its grace period, and which programs were \
      refused because of a file's class: one of each kind, which later ones replace, for refusals once a minute at most. \
      At the start one says why the store of the login could not be mounted.

      There is a unit for it: 'systemctl --user enable --now protectfs-session'. It tells systemd when it is ready. \
      What it does is said on standard error. The exit status is 0 after SIGTERM or SIGINT, and 1 where the system bus \
      cannot be reached at the start. A bus that is lost later is connected to again. Without logind it waits for one.

      Examples:
        protectfs session
        protectfs session --grace 30 --sleep-locks-all
      """)

  @Option(help: .init("Give programs this grace period at screen lock. Sleep has none.", valueName: "seconds"))
  var grace = 0.0

  @Flag(help: "Before sleep, lock every class but 'none', also for open files, as before the first unlock.")
  var sleepLocksAll = false

  @Flag(help: "Show no notifications on the desktop.")
  var noNotifications = false

  @Flag(help: "Say what is heard, too.")
  var verbose = false

  func validate() throws {
    if !(0...86_400).contains(grace) { throw ValidationError("Give --grace in seconds, from 0 to 86400.") }
  }

  func run() throws {
    try Process.enterRoot()
    Process.blockEndingSignals()
    try Thread.require(noNotifications ? 1 : 4)
    Thread(name: "signals") {
      _ = Process.waitForEndingSignal()
      Process.exitAtOnce(ExitStatus.success.rawValue)
    }.detach()
    if !noNotifications {
      let notices = DesktopNotices()
      Thread(name: "notices") { notices.run() }.detach()
      Thread(name: "login") { notices.showLoginProblem() }.detach()
      Thread(name: "daemons") { DaemonEvents(for: notices).run() }.detach()
    }
    do throws(BusError) {
      try SessionAgent(
        gracePeriod: .seconds(grace), sleepExtent: sleepLocksAll ? .everyClass : .inactive, isVerbose: verbose
      ).run()
    } catch {
      throw CommandFailure(.failure, error.description)
    }
  }
}
