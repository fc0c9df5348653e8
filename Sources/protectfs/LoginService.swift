import ArgumentParser
import ProtectfsClient
import ProtectfsIO
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
    let settings = try Self.requireSettings()
    var arguments = ["--foreground"]
    if !settings.options.isEmpty { arguments += ["-o", settings.options] }
    var command = try MountCommand.parseAsRoot(arguments + ["--", settings.backing, settings.mountPoint])
    try command.run()
  }

  static func requireSettings() throws -> LoginSettings {
    guard let settings = try LoginSettings.read() else {
      throw CommandFailure(.noStore, "nothing is on for logins; 'protectfs login enable' turns a store on")
    }
    return settings
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
      unmounted, lazily if it is in use. The same happens if no session comes within a minute.

      Example:
        protectfs login watch
      """)

  func run() throws {
    try LoginCommand.requireUser()
    let mountPoint = try LoginMountCommand.requireSettings().mountPoint
    let user = Process.identity.user
    let directory = try Descriptor.open("/run/systemd/users", [.readOnly, .directory])
    // Before the first look, so that no change is missed.
    let watch = try DirectoryWatch(directory)
    // The store is mounted before the session is known. A session that is over before it is seen ends with this wait.
    let start = ContinuousClock.now
    var hasSession = try LogindSessions.hasUserSession(of: user) == true
    while !hasSession, ContinuousClock.now < start + .seconds(60) {
      Thread.sleep(microseconds: 50_000)
      hasSession = try LogindSessions.hasUserSession(of: user) == true
    }
    while hasSession {
      try watch.wait(for: PathName("\(user)"))
      hasSession = try LogindSessions.awaitAnswer(about: user)
    }
    try Self.end(mountPoint)
  }

  /// Locks all classes at once, then has the daemon unmount and end.
  private static func end(_ mountPoint: String) throws {
    guard let mount = try MountedFileSystem.at(mountPoint) else { return }
    var daemon = try DaemonConnection(to: mount)
    let process = try ProcessDescriptor(daemon.statusWhenItAnswers().processID)
    let lost = Result { () throws(ControlError) in try daemon.lockAll() }
    // What a lock has lost is lost; it has taken effect.
    try process.end()
    guard process.waitForEnd(atMost: .seconds(90)) else {
      throw CommandFailure(.noAnswer, "the daemon of \(mountPoint) was told to end, and has not")
    }
    try lost.get()
  }
}

/// The sessions that systemd-logind knows of, by loginctl(1).
enum LogindSessions {
  /// Whether a user has a session of class `user` that has not ended; `nil` where logind does not answer.
  static func hasUserSession(of user: UInt32) throws -> Bool? {
    guard let list = try ask(["show-user", "\(user)", "--property=Sessions", "--value"]) else { return nil }
    for session in list.joined(separator: " ").split(separator: " ") {
      let about = ["--property=Class", "--property=State"]
      // One that is gone by now is not there.
      guard let lines = try ask(["show-session", String(session)] + about) else { continue }
      let isUser = lines.contains { $0 == "Class=user" || $0.hasPrefix("Class=user-") }
      if isUser, !lines.contains("State=closing") { return true }
    }
    return false
  }

  /// The same, asked again while logind does not answer: it may be being restarted. A user it does not know has none.
  static func awaitAnswer(about user: UInt32) throws -> Bool {
    for _ in 0..<30 {
      if let answer = try hasUserSession(of: user) { return answer }
      let isKnown = (try? Descriptor.open(PathName("/run/systemd/users/\(user)"), [.path])) != nil
      if !isKnown { return false }
      Thread.sleep(microseconds: 1_000_000)
    }
    throw CommandFailure(.noAnswer, "systemd-logind does not answer")
  }

  /// The lines of an answer; `nil` for none.
  private static func ask(_ arguments: [String]) throws -> [String]? {
    let environment = ["PATH=/usr/bin:/bin", "LC_ALL=C", "SYSTEMD_COLORS=0"]
    let child = try naming("/usr/bin/loginctl") {
      try ChildProcess("/usr/bin/loginctl", arguments, .own(environment: environment))
    }
    var lines: [String] = []
    child.readLines({ lines.append($0) }, isOver: { false })
    return child.reap() == .exited(0) ? lines : nil
  }
}
