import DataProtectionEssentials
import Foundation
import ProtectfsIO
import ProtectfsPolicy

/// Posts to the default notification center, and calls the delegate, on the main queue.
final class ApplicationNotifications: Sendable {
  private struct State {
    var listener: ProtectedDataListener?
    /// What waits for the main queue.
    var pending: [ProtectedDataEvent] = []
    /// Since when the main queue was asked to run; `nil` if it has run since.
    var asked: ContinuousClock.Instant?
    var hasWarned = false
  }

  private let state = RankedMutex(.application, State())

  /// How long a lock waits for a main queue that does not run.
  static let patience = Duration.seconds(2)

  // MARK: Listening

  /// Begins to post; nothing if it has begun. What changes once this has returned is posted.
  func start() {
    if state.withLock({ $0.listener != nil }) { return }
    let listener = makeListener()
    let isFirst = state.withLock { state in
      guard state.listener == nil else { return false }
      state.listener = listener
      return true
    }
    guard isFirst else { return }
    // By the first lock it is known whether the main queue runs.
    askMainQueue()
    // Timers need descriptors from the first one on: libdispatch ends a program that has none left by then.
    Task.detached { try? await Task.sleep(for: .nanoseconds(1)) }
    MountWatcher.shared.add(listener)
  }

  /// Follows the mount that was set meanwhile, if it has begun.
  func restart() {
    guard state.withLock({ $0.listener != nil }) else { return }
    let listener = makeListener()
    let former = state.withLock { state -> ProtectedDataListener? in
      guard let former = state.listener else { return nil }
      state.listener = listener
      return former
    }
    guard let former else { return }
    MountWatcher.shared.remove(former)
    MountWatcher.shared.add(listener)
  }

  private func makeListener() -> ProtectedDataListener {
    // The present availability is not a change. It is read here, since a change may come before the first event.
    let application = UIApplication.shared
    return ProtectedDataListener(
      application.followedMount, .complete, delaysLocks: true, wasAvailable: application.isProtectedDataAvailable
    ) { [self] in enqueue($0) }
  }

  // MARK: Posting

  private func enqueue(_ event: ProtectedDataEvent) {
    switch event {
    case .didBecomeUnavailable:
      // What is not available any more is not to be announced as available.
      return state.withLock { $0.pending.removeAll(where: \.isAvailability) }
    case .didBecomeAvailable, .willBecomeUnavailable: break
    }
    let (superseded, asked) = state.withLock { state -> ([ProtectedDataEvent], ContinuousClock.Instant?) in
      let superseded = state.pending
      // While the main queue does not run, the last pair says all.
      if case .didBecomeAvailable = event {
        state.pending.removeAll(where: \.isAvailability)
      } else {
        state.pending = []
      }
      state.pending.append(event)
      return (superseded, state.asked)
    }
    // Their holds are released outside the lock.
    withExtendedLifetime(superseded) {}
    askMainQueue()
    guard case .willBecomeUnavailable(let hold) = event else { return }
    wait(forQueueAskedAt: asked ?? .now, hold)
  }

  /// Releases a hold if the main queue does not run in time.
  private func wait(forQueueAskedAt asked: ContinuousClock.Instant, _ hold: LockHold) {
    let deadline = asked + Self.patience
    if ContinuousClock.now >= deadline { return giveUp(hold) }
    Task.detached { [self, weak hold] in
      try? await Task.sleep(until: deadline, clock: .continuous)
      guard let hold, state.withLock({ $0.asked.map { $0 <= asked } ?? false }) else { return }
      giveUp(hold)
    }
  }

  private func giveUp(_ hold: LockHold) {
    hold.release()
    let isFirst = state.withLock { state in
      defer { state.hasWarned = true }
      return !state.hasWarned
    }
    if isFirst { NSLog("The main queue does not run, so UIApplication's notifications of protected data wait.") }
  }

  /// Has the main queue post what is pending. An operation, and no block of a dispatch queue: Foundation then knows
  /// where observers of the main queue are called, and does not wait for that queue from itself.
  private func askMainQueue() {
    let isAsked = state.withLock { state in
      defer { state.asked = state.asked ?? .now }
      return state.asked != nil
    }
    if !isAsked { OperationQueue.main.addOperation { MainActor.assumeIsolated { self.postPending() } } }
  }

  @MainActor private func postPending() {
    let pending = state.withLock { state in
      state.asked = nil
      defer { state.pending = [] }
      return state.pending
    }
    for event in pending { post(event) }
  }

  @MainActor private func post(_ event: ProtectedDataEvent) {
    let application = UIApplication.shared
    let center = NotificationCenter.default
    switch event {
    case .willBecomeUnavailable(let hold):
      application.delegate?.applicationProtectedDataWillBecomeUnavailable(application)
      center.post(
        name: UIApplication.protectedDataWillBecomeUnavailableNotification, object: application,
        userInfo: [ObserverAddition.holdKey: hold])
      hold.release()
    case .didBecomeAvailable:
      application.delegate?.applicationProtectedDataDidBecomeAvailable(application)
      center.post(name: UIApplication.protectedDataDidBecomeAvailableNotification, object: application)
    case .didBecomeUnavailable: break
    }
  }
}

extension ProtectedDataEvent {
  fileprivate var isAvailability: Bool {
    if case .didBecomeAvailable = self { true } else { false }
  }
}
