import DataProtectionCore
import LinuxIO
import Synchronization

/// Listens to the daemon of a mount, and to that which comes after it, on a thread of its own.
final class MountFollower: Sendable {
  private struct State {
    var isCancelled = false
    /// Ends the connection that is listened to.
    var connection: ConnectionCanceller?
  }

  private let mount: FollowedMount
  private let protectionClass: ProtectionClass
  private let delaysLocks: Bool
  private let deliver: @Sendable (ProtectedDataEvent) -> Void
  private let state = Mutex(State())
  private let mounts = MountTable()

  /// - Parameter deliver: told each event on the follower's thread; the hold of a lock that was announced is its to
  ///   release.
  init(
    _ mount: FollowedMount, _ protectionClass: ProtectionClass, delaysLocks: Bool,
    _ deliver: @escaping @Sendable (ProtectedDataEvent) -> Void
  ) {
    self.mount = mount
    self.protectionClass = protectionClass
    self.delaysLocks = delaysLocks
    self.deliver = deliver
  }

  /// Begins to listen. The stack is for what `deliver` calls: a program's own code.
  func start() {
    Thread(name: "protected-data", stackSize: 1 << 23) { self.run() }.detach()
  }

  /// Ends it; nothing is delivered once the thread has noticed.
  func cancel() {
    let connection = state.withLock { state in
      state.isCancelled = true
      return state.connection
    }
    connection?.cancel()
    mounts.wakeUp()
  }

  private var isCancelled: Bool { state.withLock { $0.isCancelled } }

  // MARK: The thread

  private func run() {
    var availability = Availability(deliver)
    while !isCancelled {
      if let mount = mount.current {
        do throws(ControlError) {
          try listen(to: mount, &availability)
          continue
        } catch {
          // Its daemon has ended, or is about to: what it had in memory is gone.
        }
      }
      if isCancelled { return }
      availability.become(false)
      mounts.waitForChange()
    }
  }

  /// Tells what happens until the connection ends; returns where it should be made anew at once.
  private func listen(to mount: MountedFileSystem, _ availability: inout Availability) throws(ControlError) {
    // Registered before anything is announced to this listener, so that each lock it hears of waits for it.
    var delay = delaysLocks ? try DaemonConnection(to: mount).registerLockDelay() : nil
    let connection = try DaemonConnection(to: mount)
    let canceller = try connection.canceller()
    let isCancelled = state.withLock { state in
      state.connection = canceller
      return state.isCancelled
    }
    if isCancelled { return }
    try connection.events { event in
      switch event {
      case .monitoringBegan(let state):
        availability.become(ProtectionPolicy.access(for: .open, on: protectionClass, in: state) == .allowed)
        // Announced before this listened: the lock may be waiting for the delay all the same.
        if state == .gracePeriod { availability.announceLoss(hold(&delay, gracePeriod: nil, mount)) }
      case .willBecomeUnavailable(let classes, let seconds) where classes.contains(protectionClass):
        availability.announceLoss(hold(&delay, gracePeriod: .seconds(seconds), mount))
      case .didBecomeUnavailable(let classes) where classes.contains(protectionClass):
        availability.become(false)
      case .didBecomeAvailable(let classes) where classes.contains(protectionClass):
        availability.become(true)
      case .eventsDropped:
        // The first event of a new connection tells how things stand.
        return false
      default: break
      }
      return true
    }
  }

  /// The hold on a lock that was announced; for the next one there is a new delay before this one can be released.
  ///
  /// - Parameter gracePeriod: what is known of it.
  private func hold(
    _ delay: inout LockDelay?, gracePeriod: Duration?, _ mount: MountedFileSystem
  ) -> LockHold {
    guard gracePeriod != .zero, var announced = delay.take() else {
      return LockHold(nil, timeLimit: gracePeriod ?? .zero)
    }
    do throws(ControlError) {
      let limit = try announced.waitForAnnouncement(patience: 1)
      delay = try DaemonConnection(to: mount).registerLockDelay()
      return LockHold(.some(announced), timeLimit: max(limit, gracePeriod ?? .zero))
    } catch {
      // Announced before the delay was registered, which so is one for the next lock; or the daemon is going.
      delay = .some(announced)
      return LockHold(nil, timeLimit: gracePeriod ?? .zero)
    }
  }
}

/// What was told last, so that only changes are told.
private struct Availability {
  private var isAvailable: Bool?
  private var isLossAnnounced = false
  private let deliver: @Sendable (ProtectedDataEvent) -> Void

  init(_ deliver: @escaping @Sendable (ProtectedDataEvent) -> Void) {
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
