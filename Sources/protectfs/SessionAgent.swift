import ProtectfsClient
import ProtectfsIO
import SystemBus
import SystemPackage

/// Locks the mounts of this user when the device does: at screen lock, and before sleep.
///
/// One thread listens. Locks are made on others, so that a daemon that does not answer keeps nothing from being heard.
final class SessionAgent {
  private let gracePeriod: Duration
  private let sleepLocksAll: Bool
  private let isVerbose: Bool
  private let system: MessageBus
  private let logins: LoginManager
  /// The bus of the session, if there is one.
  private var session: MessageBus?
  /// While it is there, a sleep waits.
  private var inhibitor: SharedDescriptor?

  init(gracePeriod: Duration, sleepLocksAll: Bool, isVerbose: Bool) throws(BusError) {
    self.gracePeriod = gracePeriod
    self.sleepLocksAll = sleepLocksAll
    self.isVerbose = isVerbose
    system = try .system()
    logins = LoginManager(system, user: Process.identity.user)
  }

  /// Listens until the system bus is lost.
  func run() throws(BusError) -> Never {
    try logins.subscribe { [self] event in take(event) }
    listenToScreenSavers()
    followLogins()
    do throws(Errno) {
      try ServiceManager.notifyReady()
    } catch {
      CommandFailure.report("the service manager could not be told that the agent is ready (\(error))")
    }
    while true {
      do throws(BusError) {
        try session?.process()
      } catch {
        CommandFailure.report("screen savers are not heard any more: \(error)")
        session = nil
      }
      try system.process()
      _ = try? Poll.wait(for: .readable(system.descriptor), .readable(session?.descriptor ?? -1))
    }
  }

  // MARK: What is heard

  private func take(_ event: LoginManager.Event) {
    switch event {
    case .locked(let session): lock("session \(session.split(separator: "/").last ?? "") is locked")
    case .willSleep: lockForSleep()
    case .didWake:
      note("the machine is awake")
      delaySleep()
    case .began:
      note("logind runs")
      followLogins()
    case .ended:
      note("logind runs no more")
      inhibitor = nil
    }
  }

  private func listenToScreenSavers() {
    do throws(BusError) {
      let bus = try MessageBus.user()
      for interface in ["org.freedesktop.ScreenSaver", "org.gnome.ScreenSaver"] {
        try bus.subscribe("type='signal',interface='\(interface)',member='ActiveChanged'") {
          [self] signal throws(BusError) in
          if try signal.bool() { lock("the screen saver is active") }
        }
      }
      session = bus
    } catch {
      note("screen savers are not heard: \(error)")
    }
  }

  /// What is to be done when there is a login manager: at the start, and after each of its own.
  private func followLogins() {
    delaySleep()
    do throws(BusError) {
      let sessions = try logins.sessions()
      note("this user has \(sessions.count) sessions")
      if let locked = sessions.first(where: \.isLocked) { take(.locked(session: locked.path)) }
    } catch {
      CommandFailure.report("sessions are not known: \(error)")
    }
  }

  private func delaySleep() {
    do throws(BusError) {
      inhibitor = SharedDescriptor(try logins.delaySleep(because: "locks files before the machine sleeps"))
    } catch {
      CommandFailure.report("sleep does not wait until files are locked: \(error)")
    }
  }

  // MARK: What is done

  private func lock(_ reason: String) {
    let period = gracePeriod
    lockMounts(reason) { daemon in try daemon.lock(gracePeriod: period, waiting: period == .zero) }
  }

  private func lockForSleep() {
    let locksAll = sleepLocksAll
    lockMounts("the machine goes to sleep", delaying: inhibitor.take()) { daemon in
      if locksAll { try daemon.lockAll() } else { try daemon.lockWithInactive() }
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
    Thread(name: "locks") { [isVerbose] in
      guard let all = Self.mounts() else { return CommandFailure.report("\(reason); nothing could be locked") }
      if all.mounts.isEmpty {
        if isVerbose { CommandFailure.report("\(reason); nothing is mounted") }
        return
      }
      all.attemptTogether(lock)
      let milliseconds = Int((ContinuousClock.now - begin) / .milliseconds(1))
      do throws(CommandFailure) {
        try all.finish(of: "locked")
        CommandFailure.report("\(reason); \(all.mounts.count) locked in \(milliseconds) ms")
      } catch {
        CommandFailure.report("\(reason); \(error.message)")
      }
      withExtendedLifetime(inhibitor) {}
    }.detach()
  }

  /// The mounts of this user. A shortage of memory or descriptors may pass.
  private static func mounts() -> UserMounts? {
    for _ in 0..<20 {
      do throws(CommandFailure) {
        return try UserMounts(ofOthersToo: false)
      } catch {
        CommandFailure.report(error.message)
        Thread.sleep(microseconds: 100_000)
      }
    }
    return nil
  }

  private func note(_ message: String) {
    if isVerbose { CommandFailure.report(message) }
  }
}
