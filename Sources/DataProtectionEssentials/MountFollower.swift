import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// Follows one mount for all its listeners in this process, on a thread of its own.
///
/// It has one connection for events and, if a listener delays locks, one for that. If the daemon does not answer this
/// user, it reads the state from the mount's root once a second.
final class MountFollower: Sendable {
  typealias Listeners = [ObjectIdentifier: ProtectedDataListener]

  private struct State {
    var listeners: Listeners = [:]
    var isCancelled = false
  }

  let mount: MountedFileSystem
  private let state = RankedMutex(.mountFollower, State())
  /// Wakes the thread; `nil` if there was no descriptor left: the thread then looks once a second.
  private let signal = try? EventDescriptor()

  init(_ mount: MountedFileSystem) {
    self.mount = mount
  }

  /// Starts the thread.
  ///
  /// - Throws: `EAGAIN` if there are too many threads.
  func start() throws(Errno) {
    try Thread(starting: "protected-data", stackSize: 1 << 20) { self.run() }.detach()
  }

  /// Sets who listens. The thread reports the present availability to those who are new.
  func serve(_ listeners: Listeners) {
    state.withLock { $0.listeners = listeners }
    wakeUp()
  }

  /// Ends the thread.
  func cancel() {
    state.withLock { $0 = State(isCancelled: true) }
    wakeUp()
  }

  /// Has the thread do at once what it does once a second.
  func wakeUp() {
    signal?.raise()
  }

  private var isCancelled: Bool { state.withLock { $0.isCancelled } }
  private var listeners: Listeners { state.withLock { $0.listeners } }

  // MARK: The thread

  private func run() {
    var reported = ReportedState(self)
    while !isCancelled {
      let wasInterrupted: Bool
      do throws(ControlError) {
        wasInterrupted = try follow()
      } catch {
        wasInterrupted = false
      }
      if wasInterrupted {
        // A lock and an unlock may pass unnoticed until the next connection, and files that were open are lost then.
        for listener in listeners.values { listener.become(.available(false), ObjectIdentifier(self)) }
        reported = ReportedState(self)
        continue
      }
      if isCancelled { return }
      reported.update(listeners)
      _ = try? Poll.wait(for: .readable(signal?.rawValue ?? -1), atMost: .seconds(1))
      signal?.clear()
    }
  }

  /// Follows the daemon until the connection ends or this is cancelled.
  ///
  /// - Returns: whether it was followed, and is no more.
  /// - Throws: if there is no connection.
  private func follow() throws(ControlError) -> Bool {
    // Registered before any announcement to a listener, so that each lock that it learns of is delayed.
    let delay = registerDelay(listeners)
    var connection = try EventConnection(DaemonConnection(to: mount))
    guard case .monitoringBegan(let state)? = try connection.next(patience: 30) else {
      throw ControlError(.notUnderstood, "the first event is not the state")
    }
    var session = FollowerSession(self, delay, state)
    while !isCancelled {
      signal?.clear()
      let listeners = listeners
      if !session.hasDelay { session.nextDelay(registerDelay(listeners)) }
      session.serve(listeners)
      let isMissing = signal == nil || (!session.hasDelay && listeners.values.contains(where: \.delaysLocks))
      connection.wait(or: signal?.rawValue ?? -1, atMost: isMissing ? .seconds(1) : nil)
      do throws(ControlError) {
        while connection.isReadable {
          guard let event = try connection.next(patience: 30) else { continue }
          // The first event of a new connection contains the current state.
          if case .eventsDropped = event { return true }
          session.apply(event) { registerDelay(listeners) }
        }
      } catch {
        return true
      }
    }
    return false
  }

  /// Registers a delay for the next lock; `nil` if no listener delays locks, or if it cannot be registered now.
  private func registerDelay(_ listeners: Listeners) -> LockDelay? {
    guard listeners.values.contains(where: \.delaysLocks) else { return nil }
    return try? DaemonConnection(to: mount).registerLockDelay()
  }
}

/// The state that a follower without a connection has reported to listeners.
private struct ReportedState {
  private let mount: MountedFileSystem
  private let follower: ObjectIdentifier
  private var state: Result<LockState, Errno>?
  private var known: MountFollower.Listeners = [:]

  init(_ follower: MountFollower) {
    mount = follower.mount
    self.follower = ObjectIdentifier(follower)
  }

  /// Reads the state and reports it to those who do not know it.
  mutating func update(_ listeners: MountFollower.Listeners) {
    let now = Result { () throws(Errno) in try LockState(of: mount) }
    // Nothing is known about the mount if this process lacks descriptors or memory.
    if case .failure(.tooManyOpenFiles) = now { return }
    if case .failure(.tooManyOpenFilesInSystem) = now { return }
    if case .failure(.noMemory) = now { return }
    let isNew = now != state
    for (id, listener) in listeners where isNew || known[id] == nil { report(now, to: listener) }
    (state, known) = (now, listeners)
  }

  private func report(_ state: Result<LockState, Errno>, to listener: ProtectedDataListener) {
    switch state {
    case .failure: listener.become(.available(false), follower)
    case .success(let state):
      listener.become(.available(listener.protectionClass.canBeOpened(in: state)), follower)
      if state == .gracePeriod, listener.protectionClass.isTakenByLocks {
        listener.announceLoss(LockHold(nil, timeLimit: .zero), follower)
      }
    }
  }
}

extension ProtectionClass {
  /// Whether files of the class can be opened.
  package func canBeOpened(in state: LockState) -> Bool {
    ProtectionPolicy.access(for: .open, on: self, in: state) == .allowed
  }
}
