import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

/// Listens to the daemon of a mount, and to the daemons that follow it, on a thread of its own.
///
/// If the daemon does not answer this user, the follower reads the state from the mount's root. Its listener then gets
/// a change within a second, and no announcement of a lock.
final class MountFollower: Sendable {
  private struct State {
    var isCancelled = false
    /// Cancels what the thread waits for, by connection.
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
  private let state = RankedMutex(.mountFollower, State())
  private let mounts = MountTable()

  /// - Parameters:
  ///   - wasAvailable: the availability that the listener knows already, so that it is not reported.
  ///   - deliver: called with each event on the follower's thread. It releases the hold of an announced lock.
  init(
    _ mount: FollowedMount, _ protectionClass: ProtectionClass, delaysLocks: Bool, wasAvailable: Bool? = nil,
    _ deliver: @escaping @Sendable (ProtectedDataEvent) -> Void
  ) {
    self.mount = mount
    self.protectionClass = protectionClass
    self.wasAvailable = wasAvailable
    self.deliver = deliver
    // A lock does not take other classes, so there is nothing to put away.
    self.delaysLocks = delaysLocks && Self.isTakenByLocks(protectionClass)
  }

  private static func isTakenByLocks(_ protectionClass: ProtectionClass) -> Bool {
    protectionClass == .complete || protectionClass == .completeUnlessOpen
  }

  /// Starts to listen. The stack has room for a program's own code, which `deliver` calls.
  func start() {
    Thread(name: "protected-data", stackSize: 1 << 23) { self.run() }.detach()
  }

  /// Stops listening. Once the thread has noticed, nothing is delivered.
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
          // The daemon does not answer this user or has no room for another listener, but its mount has the state. A
          // daemon that has ended has no keys in memory.
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

  /// Delivers events until the connection ends. Returns if it should be made again at once.
  private func listen(to mount: MountedFileSystem, _ availability: inout Availability) throws(ControlError) {
    // Registered before any announcement to this listener, so that each lock that it learns of is delayed.
    var delay = try registerDelay(mount)
    let connection = try connect(mount, for: .events)
    try connection.events { event in
      switch event {
      case .monitoringBegan(let state):
        availability.become(isAvailable(state))
        // The lock was announced before this listened. The delay may still apply to it.
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
        // The first event of a new connection contains the current state.
        return false
      default: break
      }
      // For the next lock. If this fails, it is tried again at the next event.
      if delay == nil { delay = (try? registerDelay(mount)) ?? nil }
      return !isCancelled
    }
  }

  /// The hold on an announced lock.
  ///
  /// - Parameter gracePeriod: the grace period, if known.
  private func hold(_ delay: inout LockDelay?, gracePeriod: Duration?) -> LockHold {
    guard gracePeriod != .zero, var announced = delay.take() else {
      return LockHold(nil, timeLimit: gracePeriod ?? .zero)
    }
    _ = state.withLock { $0.cancellers.removeValue(forKey: .delay) }
    do throws(ControlError) {
      let limit = try announced.waitForAnnouncement(patience: 1)
      return LockHold(.some(announced), timeLimit: max(limit, gracePeriod ?? .zero))
    } catch {
      // The lock was announced before the delay was registered, or the daemon is ending, so nothing is delayed.
      return LockHold(nil, timeLimit: gracePeriod ?? .zero)
    }
  }

  private func registerDelay(_ mount: MountedFileSystem) throws(ControlError) -> LockDelay? {
    delaysLocks ? try connect(mount, for: .delay).registerLockDelay() : nil
  }

  /// A connection that ``cancel()`` cancels.
  private func connect(_ mount: MountedFileSystem, for purpose: Purpose) throws(ControlError) -> DaemonConnection {
    let connection = try DaemonConnection(to: mount)
    let canceller = try connection.canceller()
    // The one before goes without the lock: that closes a socket.
    let (_, isCancelled) = state.withLock { state in
      (state.cancellers.updateValue(canceller, forKey: purpose), state.isCancelled)
    }
    if isCancelled { canceller.cancel() }
    return connection
  }
}

/// The availability that was delivered last, so that only changes are delivered.
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
