import DataProtectionCore
import Glibc
import LinuxIO
import Logging
import SystemPackage

/// Runs the scripts for what happens on a mount, one after the other, until the mount goes.
///
/// One thread takes the events in, one holds locks back for the scripts, and one runs them.
final class HookRunner: Sendable {
  struct State {
    var jobs: [Job] = []
    /// A lock is announced; what comes now shortens it.
    var isAnnounced = false
    /// How many locks have taken effect or were cancelled: a job for one that has is over.
    var endedLocks = 0
    /// Of these, those that have taken effect.
    var completedLocks = 0
    /// The lock that is announced waits for the scripts until then.
    var heldUntil: ContinuousClock.Instant?
    /// How often the scripts before a lock were run or passed over.
    var finishedPreLocks = 0
    /// The script that runs has ended.
    var hasScriptEnded = false
    /// All that it has printed is logged.
    var hasOutputEnded = false
    var holding: ConnectionCanceller?
    var isEnding = false
  }

  /// Scripts to be run.
  struct Job: Sendable {
    let event: HookEvent
    let classes: [ProtectionClass]
    /// Before a lock: when its grace period ends.
    var gracePeriodEnd: ContinuousClock.Instant?
    let endedLocks: Int
    let completedLocks: Int
  }

  let monitor = Monitor(State())
  let mount: MountedFileSystem
  let directories: [HookDirectory]
  let log: Logger

  init(_ mount: MountedFileSystem, _ directories: [HookDirectory], log: Logger) {
    self.mount = mount
    self.directories = directories
    self.log = log
  }

  /// Runs scripts until the mount goes, or a signal tells this process to end; then ends the one that runs.
  ///
  /// - Parameter sawMount: nothing had happened on the mount when this process was started.
  /// - Throws: where the daemon does not let itself be listened to.
  func run(sawMount: Bool) throws(ControlError) {
    let events = try DaemonConnection(to: mount)
    let listening = try events.canceller()
    Thread(name: "signals") { [self] in
      _ = Process.waitForEndingSignal()
      monitor.update { $0.isEnding = true }
      listening.cancel()
    }.detach()
    let holder = Thread(name: "hold") { [self] in holdLocksBack() }
    let worker = Thread(name: "hooks") { [self] in while let job = nextJob() { run(job) } }
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
    worker.join()
    holder.join()
    if let failure, !hasBegun { throw failure }
  }

  // MARK: Events

  private func take(_ event: DaemonEvent, sawMount: Bool) {
    switch event {
    case .monitoringBegan(let state):
      // The unlock came before this process could listen.
      if sawMount, state == .unlocked || state == .gracePeriod { add(.postUnlock, Self.unlockedClasses) }
    case .willBecomeUnavailable(let classes, let seconds):
      monitor.update { state in
        defer { state.isAnnounced = true }
        guard !state.isAnnounced, seconds > 0 else { return }
        state.add(.preLock, classes, gracePeriodEnd: .now + .seconds(seconds))
      }
    case .didBecomeUnavailable(let classes):
      monitor.update { state in
        state.isAnnounced = false
        state.endedLocks += 1
        state.completedLocks += 1
        state.add(.postLock, classes)
      }
    case .didBecomeAvailable(let classes):
      monitor.update { state in
        state.isAnnounced = false
        state.endedLocks += 1
        state.add(.postUnlock, classes)
      }
    case .eventsDropped(let count):
      log.warning("events were missed, and hooks not run for them", metadata: ["count": "\(count)"])
    case .accessDenied: break
    }
  }

  private func add(_ event: HookEvent, _ classes: [ProtectionClass]) {
    monitor.update { $0.add(event, classes) }
  }

  private static let unlockedClasses = ProtectionClass.allCases.filter { $0 != .none }

  /// Waits for something to be run; `nil` when there will be nothing any more.
  private func nextJob() -> Job? {
    monitor.wait { (state, _) -> Void? in state.isEnding || !state.jobs.isEmpty ? () : nil }
    return monitor.update { state in state.isEnding ? nil : state.jobs.removeFirst() }
  }

  // MARK: Holding locks back

  /// Registers for each lock, and releases it when the scripts before it are done. A daemon that takes no registration
  /// is asked again.
  private func holdLocksBack() {
    while !monitor.read(\.isEnding) {
      do throws(ControlError) {
        try holdEachLock()
      } catch {
        guard !waits(.seconds(1), until: \.isEnding) else { return }
        log.warning("locks do not wait for hooks", metadata: ["error": "\(error)"])
      }
    }
  }

  private func holdEachLock() throws(ControlError) {
    defer { monitor.update { $0.heldUntil = nil } }
    var finished = monitor.read(\.finishedPreLocks)
    var delay = try register()
    while !monitor.read(\.isEnding) {
      let longest = try delay.waitForAnnouncement()
      let end = ContinuousClock.now + longest
      monitor.update { $0.heldUntil = end }
      _ = waits(max(.zero, end - .now)) { $0.isEnding || $0.finishedPreLocks > finished }
      monitor.update { $0.heldUntil = nil }
      finished = monitor.read(\.finishedPreLocks)
      // The one before is released by that, so that no lock comes in between.
      delay = try register()
    }
  }

  private func register() throws(ControlError) -> LockDelay {
    let delay = try DaemonConnection(to: mount).registerLockDelay()
    let canceller = try delay.canceller()
    let isEnding = monitor.update { state in
      state.holding = canceller
      return state.isEnding
    }
    if isEnding { canceller.cancel() }
    return delay
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

  mutating func add(_ event: HookEvent, _ classes: [ProtectionClass], gracePeriodEnd: ContinuousClock.Instant? = nil) {
    guard jobs.count < Self.mostJobs else { return }
    jobs.append(
      HookRunner.Job(
        event: event, classes: classes, gracePeriodEnd: gracePeriodEnd, endedLocks: endedLocks,
        completedLocks: completedLocks))
  }
}
