import Logging
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// Runs the scripts for what happens on a mount, until the mount goes: those before a lock at once, the others one
/// after the other.
///
/// One thread takes the events in, one holds locks back for the scripts before them, one runs these, and one the
/// others. Announced locks have numbers, from 1.
package final class HookRunner: Sendable {
  struct State {
    /// What is to be run after locks and unlocks.
    var jobs: [Job] = []
    /// What is to be run before the announced lock, until that has begun.
    var preLock: Job?
    /// The lock whose scripts are running now.
    var runningPreLock: Int?
    /// The last lock whose scripts were run or passed over.
    var finishedPreLock = 0
    /// How many locks were announced that have a grace period.
    var announcedLocks = 0
    /// A lock is announced; what comes now shortens it.
    var isAnnounced = false
    /// The last of the announced locks that has taken effect.
    var completedLock = 0
    /// The announced lock that waits for scripts, and until when.
    var held: (lock: Int, until: ContinuousClock.Instant)?
    /// The scripts that run, by a number of their own.
    var scripts: [Int: Progress] = [:]
    var nextScript = 0
    /// Locks that are announced now wait for scripts, if they do at all.
    var hasAskedToHold = false
    var holding: ConnectionCanceller?
    var isEnding = false

    /// Whether a lock was cancelled, or has taken effect.
    func hasEnded(_ lock: Int) -> Bool { lock < announcedLocks || lock == announcedLocks && !isAnnounced }
  }

  /// How far a script has come.
  struct Progress {
    var hasEnded = false
    /// All that it has printed is logged.
    var hasOutputEnded = false
  }

  /// Scripts to be run.
  struct Job: Sendable {
    let event: HookEvent
    let classes: [ProtectionClass]
    /// The last lock that was announced by then.
    let lock: Int
    /// Before a lock: when its grace period ends.
    var gracePeriodEnd: ContinuousClock.Instant?
  }

  let monitor = Monitor(.hooks, State())
  let mount: MountedFileSystem
  let directories: [HookDirectory]
  let log: Logger

  package init(_ mount: MountedFileSystem, _ directories: [HookDirectory], log: Logger) {
    self.mount = mount
    self.directories = directories
    self.log = log
  }

  /// How many threads ``run(sawMount:)`` starts at once.
  package static let threadCount = 4

  /// Runs scripts until the mount goes, or a signal tells this process to end; then ends those that run.
  ///
  /// - Parameter sawMount: nothing had happened on the mount when this process was started.
  /// - Throws: where the daemon does not let itself be listened to.
  package func run(sawMount: Bool) throws(ControlError) {
    let events = try DaemonConnection(to: mount)
    let listening = try events.canceller()
    Thread(name: "signals") { [self] in
      _ = Process.waitForEndingSignal()
      monitor.update { $0.isEnding = true }
      listening.cancel()
    }.detach()
    let threads = [
      Thread(name: "hold") { [self] in holdLocksBack() },
      Thread(name: "pre-lock hooks") { [self] in while let job = nextPreLock() { runPreLock(job) } },
      Thread(name: "hooks") { [self] in while let job = nextJob() { run(job) } },
    ]
    // So that each lock that is heard of waits.
    _ = waits(.seconds(5)) { $0.hasAskedToHold || $0.isEnding }
    var hasBegun = false
    var failure: ControlError?
    do throws(ControlError) {
      try events.events { event in
        hasBegun = true
        take(event, sawMount: sawMount)
        return true
      }
    } catch {
      failure = error
    }
    let holding = monitor.update { state in
      state.isEnding = true
      return state.holding
    }
    holding?.cancel()
    threads.forEach { $0.join() }
    if let failure, !hasBegun { throw failure }
  }

  // MARK: Events

  private func take(_ event: DaemonEvent, sawMount: Bool) {
    switch event {
    case .monitoringBegan(let state):
      // The unlock came before this process could listen.
      if sawMount, state == .unlocked || state == .gracePeriod {
        monitor.update { $0.add(.postUnlock, Self.unlockedClasses) }
      }
    case .willBecomeUnavailable(let classes, let seconds):
      monitor.update { $0.announce(classes, seconds: seconds) }
    case .didBecomeUnavailable(let classes):
      let isPassedOver = monitor.update { state in
        defer { state.add(.postLock, classes) }
        return state.endAnnounced(isCompleted: true)
      }
      if isPassedOver { log.warning("hooks were not run before a lock: it has taken effect") }
    case .didBecomeAvailable(let classes):
      monitor.update { state in
        _ = state.endAnnounced(isCompleted: false)
        state.add(.postUnlock, classes)
      }
    case .eventsDropped(let count):
      log.warning("events were missed, and hooks not run for them", metadata: ["count": "\(count)"])
    case .accessDenied: break
    }
  }

  private static let unlockedClasses = ProtectionClass.allCases.filter { $0 != .none }

  // MARK: Jobs

  /// Waits for something to be run after a lock or an unlock; `nil` when there will be nothing any more. The scripts
  /// before that lock, or before the one that was cancelled, end first.
  private func nextJob() -> Job? {
    monitor.wait { (state, _) -> Job?? in
      if state.isEnding { return .some(nil) }
      guard let job = state.jobs.first else { return nil }
      if let running = state.runningPreLock, running <= job.lock { return nil }
      return state.jobs.removeFirst()
    }
  }

  private func nextPreLock() -> Job? {
    monitor.wait { (state, _) -> Job?? in
      if state.isEnding { return .some(nil) }
      guard let job = state.preLock.take() else { return nil }
      state.runningPreLock = job.lock
      return job
    }
  }

  private func runPreLock(_ job: Job) {
    run(job)
    monitor.update { state in
      state.runningPreLock = nil
      state.finishedPreLock = job.lock
    }
  }

  /// Waits until a condition holds; returns whether it did in that time.
  func waits(_ time: Duration, until condition: (State) -> Bool) -> Bool {
    let end = ContinuousClock.now + time
    return monitor.wait { (state, deadline) -> Bool? in
      if condition(state) { return true }
      if ContinuousClock.now >= end { return false }
      deadline = end
      return nil
    }
  }
}

extension HookRunner.State {
  /// Jobs beyond this many are dropped: the scripts are slower than what happens.
  private static let mostJobs = 64

  mutating func add(_ event: HookEvent, _ classes: [ProtectionClass]) {
    guard jobs.count < Self.mostJobs else { return }
    jobs.append(HookRunner.Job(event: event, classes: classes, lock: announcedLocks))
  }

  /// A lock is announced, or one that was is brought forward. Without a grace period nothing is run before it.
  mutating func announce(_ classes: [ProtectionClass], seconds: Double) {
    guard !isAnnounced, seconds > 0 else { return }
    isAnnounced = true
    announcedLocks += 1
    preLock = HookRunner.Job(
      event: .preLock, classes: classes, lock: announcedLocks, gracePeriodEnd: .now + .seconds(seconds))
  }

  /// The announced lock, if there is one, was cancelled, or has taken effect. Returns whether it did that before any of
  /// its scripts was run.
  mutating func endAnnounced(isCompleted: Bool) -> Bool {
    guard isAnnounced else { return false }
    isAnnounced = false
    if isCompleted { completedLock = announcedLocks }
    return preLock.take() != nil && isCompleted
  }
}
