import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import Synchronization

/// Listens to the daemon of a mount, and to that which comes after it, on a thread of its own.
///
/// Whom the daemon does not answer is told what the mount's root says, within a second, and of no lock beforehand.
final class MountFollower: Sendable {
  private struct State {
    var isCancelled = false
    /// Ends what the thread waits for, by connection.
    var cancellers: [Purpose: ConnectionCanceller] = [:]
  }

  private enum Purpose {
    case events, delay
  }

  private let mount: FollowedMount
  private let protectionClass: ProtectionClass
  private let delaysLocks: Bool
  private let wasAvailable: Bool?
  private let deliver: @Sendable (ProtectedDataEvent) -> Void
  private let state = Mutex(State())
  private let mounts = MountTable()

  /// - Parameters:
  ///   - wasAvailable: what the listener knows already, and is not told.
  ///   - deliver: told each event on the follower's thread; the hold of a lock that was announced is its to release.
  init(
    _ mount: FollowedMount, _ protectionClass: ProtectionClass, delaysLocks: Bool, wasAvailable: Bool? = nil,
    _ deliver: @escaping @Sendable (ProtectedDataEvent) -> Void
  ) {
    self.mount = mount
    self.protectionClass = protectionClass
    self.wasAvailable = wasAvailable
    self.deliver = deliver
    // Other classes do not go with a lock, so there is nothing to put away.
    self.delaysLocks = delaysLocks && Self.isTakenByLocks(protectionClass)
  }

  private static func isTakenByLocks(_ protectionClass: ProtectionClass) -> Bool {
    protectionClass == .complete || protectionClass == .completeUnlessOpen
  }

  /// Begins to listen. The stack is for what `deliver` calls: a program's own code.
  func start() {
    Thread(name: "protected-data", stackSize: 1 << 23) { self.run() }.detach()
  }

  /// Ends it; nothing is delivered once the thread has noticed.
  func cancel() {
    let cancellers = state.withLock { state in
      state.isCancelled = true
      return state.cancellers.values
    }
    cancellers.forEach { $0.cancel() }
    mounts.wakeUp()
  }

  private var isCancelled: Bool { state.withLock { $0.isCancelled } }

  // MARK: The thread

  private func run() {
    var availability = Availability(wasAvailable, deliver)
    while !isCancelled {
      if let mount = mount.current {
        do throws(ControlError) {
          try listen(to: mount, &availability)
          continue
        } catch {
          if isCancelled { return }
          // It does not answer this user, or has no room for one more listener: its mount does. One that has ended has
          // nothing in memory any more.
          let state = try? LockState(ofMountAt: mount.mountPoint)
          availability.become(state.map(isAvailable) ?? false)
        }
      } else {
        availability.become(false)
      }
      mounts.waitForChange()
    }
  }

  private func isAvailable(_ state: LockState) -> Bool {
    ProtectionPolicy.access(for: .open, on: protectionClass, in: state) == .allowed
  }

  /// Tells what happens until the connection ends; returns where it should be made anew at once.
  private func listen(to mount: MountedFileSystem, _ availability: inout Availability) throws(ControlError) {
    // Registered before anything is announced to this listener, so that each lock it hears of waits for it.
    var delay = try registerDelay(mount)
    let connection = try connect(mount, for: .events)
    try connection.events { event in
      switch event {
      case .monitoringBegan(let state):
        availability.become(isAvailable(state))
        // Announced before this listened: the lock may be waiting for the delay all the same.
        if state == .gracePeriod, Self.isTakenByLocks(protectionClass) {
          availability.announceLoss(hold(&delay, gracePeriod: nil))
        }
      case .willBecomeUnavailable(let classes, let seconds) where classes.contains(protectionClass):
        availability.announceLoss(hold(&delay, gracePeriod: .seconds(seconds)))
      case .didBecomeUnavailable(let classes) where classes.contains(protectionClass):
        availability.become(false)
      case .didBecomeAvailable(let classes) where classes.contains(protectionClass):
        availability.become(true)
      case .eventsDropped:
        // The first event of a new connection tells how things stand.
        return false
      default: break
      }
      // For the next lock. What fails is tried again at the next event.
      if delay == nil { delay = (try? registerDelay(mount)) ?? nil }
      return !isCancelled
    }
  }

  /// The hold on a lock that was announced.
  ///
  /// - Parameter gracePeriod: what is known of it.
  private func hold(_ delay: inout LockDelay?, gracePeriod: Duration?) -> LockHold {
    guard gracePeriod != .zero, var announced = delay.take() else {
      return LockHold(nil, timeLimit: gracePeriod ?? .zero)
    }
    state.withLock { $0.cancellers[.delay] = nil }
    do throws(ControlError) {
      let limit = try announced.waitForAnnouncement(patience: 1)
      return LockHold(.some(announced), timeLimit: max(limit, gracePeriod ?? .zero))
    } catch {
      // Announced before the delay was registered, or the daemon is going: it holds nothing back.
      return LockHold(nil, timeLimit: gracePeriod ?? .zero)
    }
  }

  private func registerDelay(_ mount: MountedFileSystem) throws(ControlError) -> LockDelay? {
    delaysLocks ? try connect(mount, for: .delay).registerLockDelay() : nil
  }

  /// A connection that ``cancel()`` ends.
  private func connect(_ mount: MountedFileSystem, for purpose: Purpose) throws(ControlError) -> DaemonConnection {
    let connection = try DaemonConnection(to: mount)
    let canceller = try connection.canceller()
    let isCancelled = state.withLock { state in
      state.cancellers[purpose] = canceller
      return state.isCancelled
    }
    if isCancelled { canceller.cancel() }
    return connection
  }
}

/// What was told last, so that only changes are told.
private struct Availability {
  private var isAvailable: Bool?
  private var isLossAnnounced = false
  private let deliver: @Sendable (ProtectedDataEvent) -> Void

  init(_ isAvailable: Bool?, _ deliver: @escaping @Sendable (ProtectedDataEvent) -> Void) {
    self.isAvailable = isAvailable
    self.deliver = deliver
  }

  mutating func become(_ value: Bool) {
    guard value != isAvailable || (value && isLossAnnounced) else { return }
    isAvailable = value
    isLossAnnounced = false
    deliver(value ? .didBecomeAvailable : .didBecomeUnavailable)
  }

  mutating func announceLoss(_ hold: LockHold) {
    isLossAnnounced = true
    deliver(.willBecomeUnavailable(hold))
  }
}
