import ProtectfsClient
import ProtectfsIO
import SystemBus
import SystemPackage

/// Locks the mounts of this user when the device does: at screen lock, and before sleep.
///
/// One thread listens. Locks are made on others, so that a daemon that does not answer keeps nothing from being heard.
/// What is lost, a bus or the delay of sleep, is had again when it can be.
final class SessionAgent {
  private let gracePeriod: Duration
  /// What a lock before sleep takes.
  private let sleepExtent: LockExtent
  /// Says what is heard, if that is wanted.
  private let note: @Sendable (String) -> Void

  private var system: MessageBus?
  private var logins: LoginManager?
  private var systemRetry = Retry("the system bus cannot be reached", longest: .seconds(5))
  /// The bus of the session, if there is one.
  private var session: MessageBus?
  private var sessionRetry = Retry("screen savers are not heard", longest: .seconds(60))
  /// While it is there, a sleep waits.
  private var inhibitor: SharedDescriptor?
  private var inhibitorRetry = Retry("sleep does not wait until files are locked", longest: .seconds(60))
  /// Whether a sleep may be delayed now: logind runs, and the machine is not going to sleep already.
  private var mayDelaySleep = true
  /// Whether logind is to be asked what it has reported when nobody listened.
  private var isStateUnknown = true

  init(gracePeriod: Duration, sleepExtent: LockExtent, isVerbose: Bool) {
    self.gracePeriod = gracePeriod
    self.sleepExtent = sleepExtent
    note = { message in if isVerbose { CommandFailure.report(message) } }
  }

  /// Listens.
  ///
  /// - Throws: where the system bus cannot be reached at the start.
  func run() throws(BusError) -> Never {
    try connect()
    restore()
    do throws(Errno) {
      try ServiceManager.notifyReady()
    } catch {
      CommandFailure.report("the service manager could not be told that the agent is ready (\(error))")
    }
    while true {
      // A call that waits for its reply takes signals from the bus that come meanwhile, which is then not readable.
      var next: ContinuousClock.Instant?
      repeat { next = restore() } while process()
      _ = try? Poll.wait(
        for: .readable(system?.descriptor ?? -1), .readable(session?.descriptor ?? -1),
        atMost: next.map { $0 - .now })
    }
  }

  /// Takes what the buses have to say. Returns whether there was anything.
  private func process() -> Bool {
    let wasOnSession = process(session, "session") { session = nil }
    let wasOnSystem = process(system, "system") { (system, logins, inhibitor) = (nil, nil, nil) }
    return wasOnSession || wasOnSystem
  }

  private func process(_ bus: MessageBus?, _ name: String, forget: () -> Void) -> Bool {
    do throws(BusError) {
      return try bus?.process() ?? false
    } catch {
      CommandFailure.report("the \(name) bus is lost: \(error)")
      bus?.close()
      forget()
      return true
    }
  }

  // MARK: What is had again

  /// Tries to have what is missing, if it is time for that. Returns when it is to be tried again.
  @discardableResult
  private func restore() -> ContinuousClock.Instant? {
    let times = [
      systemRetry.attempt(while: system == nil) { () throws(BusError) in try connect() },
      sessionRetry.attempt(while: session == nil) { () throws(BusError) in try listenToScreenSavers() },
      inhibitorRetry.attempt(while: inhibitor == nil && mayDelaySleep && system != nil) { () throws(BusError) in
        try delaySleep()
      },
    ]
    learnState()
    return times.compactMap { $0 }.min()
  }

  private func connect() throws(BusError) {
    let bus = try MessageBus.system()
    let logins = LoginManager(bus, user: Process.identity.user)
    do throws(BusError) {
      try logins.subscribe { [self] event in take(event) }
    } catch {
      bus.close()
      throw error
    }
    (system, self.logins, mayDelaySleep, isStateUnknown) = (bus, logins, true, true)
  }

  private func listenToScreenSavers() throws(BusError) {
    let bus = try MessageBus.user()
    do throws(BusError) {
      for desktop in ["freedesktop", "gnome", "cinnamon", "mate", "xfce"] {
        let name = "org.\(desktop).ScreenSaver"
        let receive = { [self] (message: borrowing BusMessage) throws(BusError) in
          if try message.bool() { lock("the screen saver is active") }
        }
        try bus.subscribe("type='signal',interface='\(name)',member='ActiveChanged'", receive)
        // One that is active already.
        try bus.ask(name, "/" + name.split(separator: ".").joined(separator: "/"), name, "GetActive", receive)
      }
    } catch {
      bus.close()
      throw error
    }
    session = bus
  }

  private func delaySleep() throws(BusError) {
    guard let logins else { return }
    inhibitor = SharedDescriptor(try logins.delaySleep(because: "locks files before the machine sleeps"))
  }

  /// Asks whether a session is locked already, at the start and when logind was started anew. Where it does not run,
  /// its start is heard.
  private func learnState() {
    guard isStateUnknown, let logins else { return }
    isStateUnknown = false
    do throws(BusError) {
      let sessions = try logins.sessions()
      note("this user has \(sessions.count) sessions")
      if let locked = sessions.first(where: \.isLocked) { take(.locked(session: locked.path)) }
    } catch {
      note("sessions are not known: \(error)")
    }
  }

  // MARK: What is heard

  private func take(_ event: LoginManager.Event) {
    switch event {
    case .locked(let session): lock("session \(session.split(separator: "/").last ?? "") is locked")
    case .willSleep:
      mayDelaySleep = false
      lockForSleep()
    case .didWake:
      note("the machine is awake")
      mayDelaySleep = true
      inhibitorRetry.tryNow()
    case .began:
      note("logind runs")
      (inhibitor, mayDelaySleep, isStateUnknown) = (nil, true, true)
      inhibitorRetry.tryNow()
    case .ended:
      note("logind runs no more")
      (inhibitor, mayDelaySleep) = (nil, false)
    }
  }

  // MARK: What is done

  private func lock(_ reason: String) {
    let period = gracePeriod
    lockMounts(reason) { daemon in try daemon.lock(gracePeriod: period, waiting: period == .zero) }
  }

  private func lockForSleep() {
    lockMounts("the machine goes to sleep", delaying: inhibitor.take()) { [sleepExtent] daemon in
      try sleepExtent.lock(&daemon)
    }
  }

  /// Locks all mounts at the same time, and returns at once.
  ///
  /// - Parameter inhibitor: is there until that is done.
  private func lockMounts(
    _ reason: String, delaying inhibitor: SharedDescriptor? = nil,
    _ lock: @escaping @Sendable (inout DaemonConnection) throws -> Void
  ) {
    let begin = ContinuousClock.now
    let work = { @Sendable [note] in
      guard let all = Self.mounts() else { return CommandFailure.report("\(reason); nothing could be locked") }
      guard all.count > 0 else { return note("\(reason); nothing is mounted") }
      all.lockTogether(lock)
      let milliseconds = Int((ContinuousClock.now - begin) / .milliseconds(1))
      do throws(CommandFailure) {
        try all.finish(of: "locked")
        CommandFailure.report("\(reason); \(all.count) locked in \(milliseconds) ms")
      } catch {
        CommandFailure.report("\(reason); \(error.message)")
      }
      withExtendedLifetime(inhibitor) {}
    }
    do throws(Errno) {
      try Thread(starting: "locks", work).detach()
    } catch {
      // The system has too many: what is to be heard waits.
      work()
    }
  }

  /// The mounts of this user. A shortage of memory or descriptors may pass.
  private static func mounts() -> UserMounts? {
    for _ in 0..<20 {
      do throws(CommandFailure) {
        return try UserMounts(ofOthersToo: false, includingDaemons: true)
      } catch {
        CommandFailure.report(error.message)
        Thread.sleep(microseconds: 100_000)
      }
    }
    return nil
  }
}
