import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

// What the machine tells clients and the log. That may have to wait, for the system's log above all, so it is not done
// with the state locked: whoever changes the state notes what is to be announced, and announces what is due afterwards.
extension LockMachine {
  /// Tells somebody what has happened.
  typealias Announcement = @Sendable () -> Void

  /// Changes the state by `body`, and announces what that has noted; returns when it was announced, by whichever
  /// thread.
  func change<Result>(_ body: (inout State) -> Result) -> Result {
    defer { makeAnnouncements() }
    return monitor.update(body)
  }

  /// Notes an event that is to be announced.
  func note(_ event: DaemonEvent, _ state: inout State) {
    state.announcements.append { [announce] in announce(event) }
  }

  /// Makes the announcements that are due. What was noted before this is called is announced when it returns.
  func makeAnnouncements() {
    announcing.withLock { _ in _ = makeAnnouncementsInTurn() }
  }

  /// Tells a listener the state, and has it added by `subscribe` to those who are told of changes: it hears of each one
  /// from that state on, and of none twice.
  func beginMonitoring<Result: Sendable>(
    _ deliver: (DaemonEvent) -> Void, subscribing subscribe: () -> Result
  ) -> Result {
    announcing.withLock { _ in
      // Later changes wait for this to be announced.
      deliver(.monitoringBegan(makeAnnouncementsInTurn()))
      return subscribe()
    }
  }

  /// The same with ``announcing`` held; returns the state that they led to.
  private func makeAnnouncementsInTurn() -> LockState {
    let (due, lockState) = monitor.update { state in
      defer { state.announcements = [] }
      return (state.announcements, state.lockState)
    }
    for announce in due { announce() }
    return lockState
  }
}
