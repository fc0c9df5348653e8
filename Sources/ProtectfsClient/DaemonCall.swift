import ProtectfsIO
import SystemPackage

/// A call to a daemon that a task waits for, made on a thread of its own: a daemon may not answer, and the threads of
/// tasks are few.
package final class DaemonCall<Value: Sendable>: Sendable {
  private typealias Outcome = Result<Value, ControlError>

  private struct State {
    var continuation: CheckedContinuation<Outcome, Never>?
    var outcome: Outcome?
    var canceller: ConnectionCanceller?
  }

  private let state = RankedMutex(.daemonCall, State())

  private init() {}

  /// Connects to the daemon of the mount that contains a file or directory, and calls `body`.
  ///
  /// - Throws: ``ControlError/Code-swift.enum/cancelled`` at once if the task is cancelled. The connection has ended
  ///   then, or ends as soon as it was made.
  package static func run(
    at path: String, _ body: @escaping @Sendable (inout DaemonConnection) throws(ControlError) -> Value
  ) async throws(ControlError) -> Value {
    let call = DaemonCall()
    return try await withTaskCancellationHandler {
      await withCheckedContinuation { call.start(path, $0, body) }
    } onCancel: {
      call.finish(.failure(ControlError(.cancelled, "the task that waits for the daemon was cancelled")))
    }.get()
  }

  private func start(
    _ path: String, _ continuation: CheckedContinuation<Outcome, Never>,
    _ body: @escaping @Sendable (inout DaemonConnection) throws(ControlError) -> Value
  ) {
    let outcome = state.withLock { state in
      if state.outcome == nil { state.continuation = continuation }
      return state.outcome
    }
    if let outcome { return continuation.resume(returning: outcome) }
    do throws(Errno) {
      try Thread(starting: "daemon-call", stackSize: 1 << 20) {
        self.finish(Result { () throws(ControlError) in try self.call(path, body) })
      }.detach()
    } catch {
      finish(.failure(ControlError(.failed, "no thread can be started (\(error))")))
    }
  }

  private func call(
    _ path: String, _ body: (inout DaemonConnection) throws(ControlError) -> Value
  ) throws(ControlError) -> Value {
    var connection = try DaemonConnection(mountPoint: path)
    let canceller = try connection.canceller()
    let outcome = state.withLock { state in
      state.canceller = canceller
      return state.outcome
    }
    if let outcome { return try outcome.get() }
    return try body(&connection)
  }

  /// Only the first outcome counts.
  private func finish(_ outcome: Outcome) {
    let (continuation, canceller) = state.withLock { state in
      defer { state.canceller = nil }
      guard state.outcome == nil else { return (CheckedContinuation<Outcome, Never>?.none, state.canceller) }
      defer { state.continuation = nil }
      state.outcome = outcome
      return (state.continuation, state.canceller)
    }
    // Ends what the thread waits for, if it is not the thread that calls this.
    canceller?.cancel()
    continuation?.resume(returning: outcome)
  }
}
