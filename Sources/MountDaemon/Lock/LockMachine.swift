import FUSE
import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

/// The states of a mounted file system, and when they change: lock, grace period, inactivity.
///
/// One thread carries locks out; everyone else changes the state and waits.
final class LockMachine: Sendable {
  struct State {
    var lockState = LockState.beforeFirstUnlock
    /// When the grace period ends.
    var locksAt: ContinuousClock.Instant?
    /// Who holds the lock back beyond that.
    var delays: LockDelays
    /// Class CX goes with the lock, not after its period.
    var isInactivityDue = false
    /// When class CX goes.
    var expiresAt: ContinuousClock.Instant?
    /// When everything goes, as before the first unlock.
    var restsAt: ContinuousClock.Instant?
    /// How often a lock was asked for, also when nothing was unlocked, or a lock of everything.
    var lockRequests = 0
    /// How often a lock has taken effect.
    var completedLocks = 0
    /// What the last one has left undone.
    var lockOutcome = LockOutcome()
    /// The sequence is running: nothing may change the state until it has ended.
    var isLocking = false
    /// The state in which a lock that is running ends.
    var locksTo: LockState?
    var rotation = RotationState.none
    /// Keys that were destroyed, and are still in memory.
    var destruction: Destruction?
    /// What is to be announced once the state is not locked any more.
    var announcements: [Announcement] = []
    /// Files whose pages are to be dropped, outside of a lock.
    var staleNodes: Set<NodeID> = []
    /// When the pages of late writes are dropped next, and until when it is done without a sign of one.
    var lateDrops: (next: ContinuousClock.Instant, end: ContinuousClock.Instant)?
    /// The mount is gone, and it is not known yet whether the file system lives on, and is to be locked.
    var isMountGone = false
    var isStopping = false
    /// Where programs find the state.
    var published: PublishedState?

    /// When an announced lock takes effect at the latest.
    var takesEffectAt: ContinuousClock.Instant? { locksAt.map { delays.effect(after: $0) } }
  }

  /// The end of the keys of classes, while they may be in use.
  struct Destruction: Sendable {
    let classes: [ProtectionClass]
    /// The state afterwards; `nil`: the same as before.
    var newState: LockState? = nil
    /// Of the classes, those that the mount is to have no keys of any more.
    var withheld: [ProtectionClass] = []
    /// Called when the old keys have gone from memory. Returns what takes their place, where the state has keys of
    /// these classes in memory.
    let completion: @Sendable () -> [ProtectionClass: [HeldKey]]
  }

  private enum Work {
    case lock([ProtectionClass], LockState)
    case destroy(Destruction)
    case drop([NodeID])
    case dropLateWrites
    case stop
  }

  let monitor: Monitor<State>
  let controller: LockController
  let gracePeriod: Duration
  private let inactivityPeriod: Duration
  let restPeriod: Duration?
  /// What time it is. A clock other than the default has its changes followed by an update of the state.
  let now: @Sendable () -> ContinuousClock.Instant
  /// Called without the state locked, for one event at a time.
  let announce: @Sendable (DaemonEvent) -> Void
  /// Held while announcements are made, so that they are heard in the order in which things happen. Taken before the
  /// state.
  let announcing = RankedMutex(.announcements, ())

  init(
    gracePeriod: Duration, lockDelay: Duration, inactivityPeriod: Duration, restPeriod: Duration? = nil,
    controller: LockController, now: @escaping @Sendable () -> ContinuousClock.Instant = { MonotonicClock.now },
    announce: @escaping @Sendable (DaemonEvent) -> Void
  ) {
    monitor = Monitor(.lockState, State(delays: LockDelays(limit: lockDelay)))
    self.gracePeriod = gracePeriod
    self.inactivityPeriod = inactivityPeriod
    self.restPeriod = restPeriod
    self.controller = controller
    self.now = now
    self.announce = announce
  }

  /// How long after a lock a write(2) may begin that had looked at the attributes before it, in a thread that gets no
  /// processor; and how often its pages are looked for.
  private static let timeOfLateWrites = Duration.seconds(5)
  private static let timeBetweenDrops = Duration.milliseconds(100)

  /// The classes that go with the lock, and the one that goes later.
  static let lockedClasses = ProtectionPolicy.classesLosingKey(from: .unlocked, to: .locked)
  private static let inactiveClasses = ProtectionPolicy.classesLosingKey(from: .locked, to: .inactive)

  var state: State { monitor.read { $0 } }

  /// Changes the state, also for those who ask for it without a lock.
  func enter(_ lockState: LockState, _ state: inout State) {
    state.lockState = lockState
    controller.lockState = lockState
    state.published?.set(lockState)
  }

  /// Publishes the state from now on.
  func publish(_ published: PublishedState) {
    monitor.update { state in
      published.set(state.lockState)
      state.published = published
    }
  }

  /// Has a file's pages dropped soon.
  func drop(_ node: NodeID) {
    monitor.update { _ = $0.staleNodes.insert(node) }
  }

  /// Ends ``run(_:)``.
  func stop() {
    monitor.update { $0.isStopping = true }
  }

  /// Carries out what is due until ``stop()``: the body of the lock thread.
  func run(_ sequence: some ClassLocking) {
    var sequence = sequence
    while true {
      switch nextWork() {
      case .stop:
        return
      case .drop(let nodes):
        sequence.drop(nodes)
      case .dropLateWrites:
        let late = sequence.dropLateWrites()
        monitor.update { state in
          if late != .underWay { state.lockOutcome.beingWritten = [] }
          guard let end = state.lateDrops?.end, late == .underWay || late == .possible && now() < end else {
            state.lateDrops = nil
            return
          }
          state.lateDrops?.next = now() + Self.timeBetweenDrops
        }
      case .destroy(let destruction):
        var outcome = sequence.run(destruction.classes, evictingOpenFiles: true)
        outcome.keepsKeybagKey = !wipeRotationKey(within: sequence.patience, awaitingEnd: true)
        sequence.report(outcome)
        let successors = destruction.completion()
        change { [outcome] state in
          if let newState = destruction.newState {
            state.lockOutcome = outcome
            finish(destruction.classes, enter: newState, &state)
          } else {
            // Of one lock and of what has gone since.
            state.lockOutcome.add(outcome)
          }
          install(successors, in: state.lockState)
          for fileClass in destruction.classes {
            let availability = ProtectionPolicy.keyAvailability(of: fileClass, in: state.lockState)
            let isWithheld = destruction.withheld.contains(fileClass)
            controller.setAvailability(isWithheld ? .unavailable : availability, of: fileClass)
          }
          state.isLocking = false
          state.destruction = nil
          expectLateWrites(&state)
        }
      case .lock(let classes, let newState):
        var outcome = sequence.run(classes, evictingOpenFiles: false)
        outcome.keepsKeybagKey = !wipeRotationKey(within: sequence.patience, awaitingEnd: false)
        sequence.report(outcome)
        change { [outcome] state in
          enter(newState, &state)
          state.locksTo = nil
          state.isLocking = false
          if newState == .locked {
            state.completedLocks += 1
            state.lockOutcome = outcome
            goToRest(after: restPeriod, &state)
          } else {
            state.lockOutcome.add(outcome)
          }
          state.locksAt = nil
          state.delays.end()
          state.expiresAt = newState == .locked ? now() + (state.isInactivityDue ? .zero : inactivityPeriod) : nil
          expectLateWrites(&state)
          note(.didBecomeUnavailable(classes: classes), &state)
        }
      }
    }
  }

  private func expectLateWrites(_ state: inout State) {
    state.lateDrops = (now() + Self.timeBetweenDrops, now() + Self.timeOfLateWrites)
  }

  private func nextWork() -> Work {
    monitor.wait { state, deadline in
      if state.isStopping { return .stop }
      if let destruction = state.destruction {
        state.isLocking = true
        return .destroy(destruction)
      }
      let now = now()
      if state.lockState == .gracePeriod, let takesEffectAt = state.takesEffectAt {
        if takesEffectAt <= now {
          state.isLocking = true
          state.locksTo = .locked
          return .lock(Self.lockedClasses, .locked)
        }
        deadline = takesEffectAt
      }
      if state.lockState == .locked, let expiresAt = state.expiresAt {
        if expiresAt <= now {
          state.isLocking = true
          state.locksTo = .inactive
          return .lock(Self.inactiveClasses, .inactive)
        }
        deadline = expiresAt
      }
      if let restsAt = state.restsAt, restsAt <= now {
        let destruction = Self.destructionOfAll
        state.destruction = destruction
        state.isLocking = true
        return .destroy(destruction)
      }
      if !state.staleNodes.isEmpty {
        defer { state.staleNodes = [] }
        return .drop(Array(state.staleNodes))
      }
      if let next = state.lateDrops?.next {
        if next <= now { return .dropLateWrites }
        deadline = deadline.map { min($0, next) } ?? next
      }
      return nil
    }
  }
}
