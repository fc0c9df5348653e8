import ProtectfsIO

/// The events that wait for a task. Whoever appends one does not wait, however slow the task is.
final class EventMailbox: Sendable {
  private struct State {
    var events: [ProtectedDataEvent] = []
    var waiting: [CheckedContinuation<ProtectedDataEvent?, Never>] = []
    var isEnded = false
    var whenEnded: (@Sendable () -> Void)?
  }

  private let state = RankedMutex(.eventMailbox, State())

  /// More would only repeat themselves.
  private static let longest = 16

  /// Sets what is called when the task has ended.
  func whenEnded(_ body: @escaping @Sendable () -> Void) {
    state.withLock { $0.whenEnded = body }
  }

  /// Adds an event. A task that is so slow that it has missed several locks gets only the last state: if its data is
  /// available now, after the news that it was not.
  func append(_ event: ProtectedDataEvent) {
    typealias Waiting = CheckedContinuation<ProtectedDataEvent?, Never>
    let (waiting, superseded) = state.withLock { state -> (Waiting?, [ProtectedDataEvent]) in
      if state.isEnded { return (nil, []) }
      if !state.waiting.isEmpty { return (state.waiting.removeFirst(), []) }
      guard state.events.count >= Self.longest else {
        state.events.append(event)
        return (nil, [])
      }
      let superseded = state.events
      state.events = [.didBecomeUnavailable]
      if case .didBecomeUnavailable = event {} else { state.events.append(event) }
      return (nil, superseded)
    }
    waiting?.resume(returning: event)
    // Their holds are released outside the lock.
    withExtendedLifetime(superseded) {}
  }

  /// Waits for an event; `nil` once the task was cancelled, or the mailbox has ended.
  func next(isolation actor: isolated (any Actor)? = #isolation) async -> ProtectedDataEvent? {
    let event = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let (event, isOver) = state.withLock { state -> (ProtectedDataEvent?, Bool) in
          if state.isEnded { return (nil, true) }
          if !state.events.isEmpty { return (state.events.removeFirst(), true) }
          state.waiting.append(continuation)
          return (nil, false)
        }
        if isOver { continuation.resume(returning: event) }
      }
    } onCancel: {
      // The task's status is locked meanwhile, for which whoever resumes the task waits. Such a thread holds the lock
      // of a listener, which is therefore not taken here.
      drop()
    }
    if event == nil { end() }
    return event
  }

  /// Drops all events, and those to come, and has the listener removed.
  func end() {
    drop()
    state.withLock { state in
      defer { state.whenEnded = nil }
      return state.whenEnded
    }?()
  }

  /// Drops all events, and those to come.
  private func drop() {
    let (waiting, events) = state.withLock { state in
      defer { (state.waiting, state.events, state.isEnded) = ([], [], true) }
      return (state.waiting, state.events)
    }
    for continuation in waiting { continuation.resume(returning: nil) }
    withExtendedLifetime(events) {}
  }
}
