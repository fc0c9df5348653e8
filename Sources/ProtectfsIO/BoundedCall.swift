import SystemPackage

/// Calls that may wait for a file system without end, on threads of their own. Who asks about one that does not answer
/// waits for it once.
package enum BoundedCall {
  /// For how long a call is waited for.
  package static let seconds = 2

  /// How many may hang at a time.
  private static let mostHanging = 16

  /// What calls are about that were given up, and have not returned: how many.
  /// No Mutex: a process that forks takes it before, and one of Swift's is not for its child.
  private static let hanging = Monitor(.daemonCall, [String: Int]())

  private enum State<Result: Sendable> {
    case waitedFor
    case givenUp
    case done(Swift.Result<Result, Errno>)
  }

  /// Returns what `body` does. Without a thread for it, it is called here, and may take its time.
  ///
  /// - Parameter subject: what it waits for.
  /// - Throws: what it throws; `ETIMEDOUT` if it does not return in time, and at once if another call about the same
  ///   has not returned yet, or too many have not.
  package static func result<Result: Sendable>(
    about subject: String, _ body: @escaping @Sendable () throws(Errno) -> Result
  ) throws(Errno) -> Result {
    let mayHang = hanging.read { $0[subject] == nil && $0.values.reduce(0, +) < mostHanging }
    guard mayHang else { throw .timedOut }
    let state = Monitor(.daemonCall, State<Result>.waitedFor)
    let thread = try? Thread(starting: "bounded call", stackSize: 1 << 20) {
      let result = Swift.Result { () throws(Errno) in try body() }
      let wasGivenUp = state.update { state in
        defer { state = .done(result) }
        if case .givenUp = state { return true }
        return false
      }
      if wasGivenUp { count(-1, subject) }
    }
    guard let thread else { return try body() }
    thread.detach()
    let end = ContinuousClock.now + .seconds(seconds)
    let result: Swift.Result<Result, Errno>? = state.wait { state, deadline in
      deadline = end
      if case .done(let result) = state { return .some(result) }
      guard ContinuousClock.now >= end else { return nil }
      state = .givenUp
      return .some(nil)
    }
    if let result { return try result.get() }
    count(1, subject)
    throw .timedOut
  }

  private static func count(_ change: Int, _ subject: String) {
    hanging.update { hanging in
      let count = (hanging[subject] ?? 0) + change
      hanging[subject] = count == 0 ? nil : count
    }
  }
}
