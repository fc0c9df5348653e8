import ArgumentParser
import ProtectfsClient
import ProtectfsIO
import SystemBus
import SystemPackage

/// `protectfs login mount`
struct LoginMountCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "mount",
    abstract: "Mount what is on for your logins; the service protectfs-user@ runs this.",
    discussion: """
      Mounts in the foreground, locked, what 'protectfs login enable' has set. The PAM module unlocks it.

      Example:
        protectfs login mount
      """)

  func run() throws {
    try LoginCommand.requireUser()
    guard let settings = try LoginSettings.read() else {
      throw CommandFailure(.noStore, "nothing is on for logins; 'protectfs login enable' turns a store on")
    }
    try LoginSettings.setWritable(false, settings.mountPoint, coversContents: settings.coversContents)
    // What is set comes after it.
    var arguments = ["--foreground", "-o", "at_rest=72h"]
    if !settings.options.isEmpty { arguments += ["-o", settings.options] }
    var command = try MountCommand.parseAsRoot(arguments + ["--", settings.backing, settings.mountPoint])
    try command.run()
  }
}

/// `protectfs login watch`
struct LoginWatchCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "watch",
    abstract: "Lock and unmount it when your last session ends; protectfs-logout@ runs this.",
    discussion: """
      Waits for the end of the last session of class 'user' that systemd-logind knows of, whatever goes on without one: \
      a job of cron, a service that lingers, a terminal multiplexer. All classes are then locked at once, and the store is \
      unmounted, lazily if it is in use. The same happens if no session comes within a minute, or 'login enable' was run \
      without one. While logind does not \
      answer, no session counts as ended.

      Example:
        protectfs login watch
      """)

  func run() throws {
    try LoginCommand.requireUser()
    try Self.awaitLastLogout()
    // A login that comes now has this service restarted, and waits until all is locked and unmounted: what it unlocked
    // in the middle of that would be locked again.
    Process.blockEndingSignals()
    try Self.end()
  }

  /// Waits until this user has no session any more. The store is mounted before the session is known that it is mounted
  /// for, so that this is awaited first: sessions that were there before may end meanwhile. The service manager is told
  /// when no session can be missed.
  private static func awaitLastLogout() throws {
    let directory = try Descriptor.open("/run/systemd/users", [.readOnly, .directory])
    // logind replaces the user's file with each change. Watched before the first look, so that none is missed.
    let watch = watch(directory)
    let user = Process.identity.user
    let limit = ContinuousClock.now + .seconds(60)
    var former: Set<String>?
    // The PAM module says where there is none to come.
    var isAwaited = !PathName("/run/protectfs-user/\(user).session").isThere
    var isReady = false
    while true {
      let answer = sessions(of: user)
      if !isReady { try ServiceManager.notifyReady() }
      isReady = true
      guard let (all, hasUserSession) = answer else {
        Thread.sleep(microseconds: pause)
        continue
      }
      let known = former ?? all
      former = known
      if limit <= .now || !all.isSubset(of: known) { isAwaited = false }
      if !hasUserSession, !isAwaited { return }
      if watch == nil {
        // One that is awaited must not begin and end unseen.
        Thread.sleep(microseconds: isAwaited ? pause / 10 : pause)
      } else {
        try watch?.wait(for: PathName("\(user)"), until: isAwaited ? limit : nil)
      }
    }
  }

  /// The time between looks where nothing reports a change.
  private static let pause: UInt32 = 1_000_000

  /// A watch of a directory; `nil` if the user's programs have all that the system permits, so that one has to look.
  private static func watch(_ directory: borrowing Descriptor) -> DirectoryWatch? {
    do throws(Errno) {
      return try DirectoryWatch(directory)
    } catch {
      CommandFailure.report("the end of the last session is looked for each second: inotify: \(error)")
      return nil
    }
  }

  /// The sessions of a user of all classes, and whether one is of class `user`; `nil` where logind does not answer,
  /// which ends none.
  private static func sessions(of user: UInt32) -> (all: Set<String>, hasUserSession: Bool)? {
    do throws(BusError) {
      // A connection of its own each time: the bus, too, may have been started anew.
      let logins = LoginManager(try .system(), user: user)
      let all = try logins.ownSessions()
      return (Set(all), try logins.hasUserSession(among: all))
    } catch {
      CommandFailure.report("which sessions user \(user) has is not known: \(error)")
      return nil
    }
  }

  /// Has the daemon lock all classes at once, then unmount and end. It may serve another store than what is set for
  /// logins by now, and its user may have removed its own sockets: that of the service leads to it.
  private static func end() throws {
    var daemon = try DaemonConnection(socketPath: "/run/protectfs-user/\(Process.identity.user).socket")
    let process = try ProcessDescriptor(daemon.statusWhenItAnswers().processID)
    let lost = Result { () throws(ControlError) in try daemon.lockAll() }
    // What a lock has lost is lost; it has taken effect.
    try process.end()
    guard process.waitForEnd(atMost: .seconds(90)) else {
      throw CommandFailure(.noAnswer, "the daemon was told to end, and has not")
    }
    try lost.get()
  }
}
