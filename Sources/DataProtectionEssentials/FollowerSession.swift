import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

/// What a daemon says on one connection, passed on to the listeners of its mount.
struct FollowerSession: ~Copyable {
  private let follower: ObjectIdentifier
  private var listeners: MountFollower.Listeners = [:]
  private var available: Set<ProtectionClass>
  /// The classes whose lock was announced, and has neither taken effect nor been cancelled.
  private var announced: Set<ProtectionClass> = []
  /// For the next lock.
  private var delay: LockDelay?
  /// The delay of the announced lock, while a listener holds it.
  private weak var announcedDelay: AnnouncedDelay?
  private var gracePeriod = Duration.zero
  private var announcement = ContinuousClock.now

  /// - Parameters:
  ///   - delay: registered before the connection for events was made.
  ///   - state: the first event.
  init(_ follower: MountFollower, _ delay: consuming LockDelay?, _ state: LockState) {
    self.follower = ObjectIdentifier(follower)
    self.delay = delay
    available = Set(ProtectionClass.allCases.filter { $0.canBeOpened(in: state) })
    // The lock was announced before this listened. The delay may still apply to it.
    if state == .gracePeriod {
      announced = Set(ProtectionClass.allCases.filter(\.isTakenByLocks))
    }
  }

  /// Whether a delay for the next lock is registered.
  var hasDelay: Bool { delay != nil }

  /// Sets the delay for the next lock.
  mutating func nextDelay(_ delay: consuming LockDelay?) {
    self.delay = delay
  }

  /// Sets the listeners, and reports the state to those who are new.
  mutating func serve(_ listeners: MountFollower.Listeners) {
    let new = listeners.filter { self.listeners[$0.key] == nil }
    // A delay that was registered later is for the next lock.
    let held = announcedDelay ?? (self.listeners.isEmpty ? takeDelay() : nil)
    self.listeners = listeners
    for listener in new.values {
      listener.become(.available(available.contains(listener.protectionClass)), follower)
      if announced.contains(listener.protectionClass) { announceLoss(to: listener, held, after: .now - announcement) }
    }
  }

  /// Passes on an event.
  ///
  /// - Parameter register: registers the next delay.
  mutating func apply(_ event: DaemonEvent, _ register: () -> LockDelay?) {
    switch event {
    case .willBecomeUnavailable(let classes, let seconds):
      let isFirst = announced.isEmpty
      announced.formUnion(classes)
      (gracePeriod, announcement) = (.seconds(seconds), .now)
      // Without a grace period nobody is waited for.
      if seconds == 0 { endDelay() }
      let held = isFirst && seconds > 0 ? takeDelay() : announcedDelay
      // Before the lock can take effect, so that the next one is delayed too.
      if delay == nil { delay = register() }
      for listener in listeners.values where classes.contains(listener.protectionClass) {
        announceLoss(to: listener, seconds == 0 ? nil : held, after: .zero)
      }
    case .didBecomeUnavailable(let classes):
      available.subtract(classes)
      become(classes)
    case .didBecomeAvailable(let classes):
      available.formUnion(classes)
      become(classes)
    default: break
    }
    if delay == nil { delay = register() }
  }

  /// A listener may keep the hold on a lock that is over. It must not count as that of the next one.
  private mutating func endDelay() {
    announcedDelay?.end()
    announcedDelay = nil
  }

  private mutating func become(_ classes: [ProtectionClass]) {
    if !announced.isDisjoint(with: classes) { endDelay() }
    announced.subtract(classes)
    for listener in listeners.values where classes.contains(listener.protectionClass) {
      listener.become(.available(available.contains(listener.protectionClass)), follower)
    }
  }

  /// - Parameter elapsed: the time since the announcement.
  private func announceLoss(to listener: ProtectedDataListener, _ held: AnnouncedDelay?, after elapsed: Duration) {
    let held = listener.delaysLocks ? held : nil
    let limit = max(gracePeriod, held?.timeLimit ?? .zero)
    listener.announceLoss(LockHold(held, timeLimit: max(limit - elapsed, .zero)), follower)
  }

  /// The delay of the announced lock: the one that its listeners hold, or else the registered one, if it applies.
  private mutating func takeDelay() -> AnnouncedDelay? {
    if let announcedDelay { return announcedDelay }
    guard !announced.isEmpty, var delay = delay.take() else { return nil }
    do throws(ControlError) {
      let limit = try delay.waitForAnnouncement(patience: 1)
      let taken = AnnouncedDelay(delay, timeLimit: limit)
      announcedDelay = taken
      return taken
    } catch {
      // The lock was announced before the delay was registered, or the daemon is ending, so nothing is delayed.
      return nil
    }
  }
}
