import ProtectfsClient
import ProtectfsIO
import Synchronization

/// Lets one secret be tried at a time, so that many clients cannot make the daemon derive many keys at once, and few
/// wait for it, so that they leave locked memory and connections to others.
final class DerivationLock: Sendable {
  private let mutex = RankedMutex(.keyDerivation, ())
  private let calls: CallCount
  private let isTrying = Atomic(false)
  private let ended = Atomic(0)

  /// - Parameter limit: How many calls may wait or be carried out at a time.
  init(limit: Int) {
    calls = CallCount(limit: limit)
  }

  /// Has a secret tried.
  func attempt<Result: Sendable>(_ body: () throws(ControlError) -> Result) throws(VarlinkError) -> Result {
    guard calls.begin() else { throw .control(.tooManySecrets(calls.limit)) }
    defer { calls.end() }
    return try VarlinkError.translating { () throws(ControlError) in
      try mutex.withLock { (_) throws(ControlError) in
        isTrying.store(true, ordering: .sequentiallyConsistent)
        defer {
          isTrying.store(false, ordering: .sequentiallyConsistent)
          ended.add(1, ordering: .sequentiallyConsistent)
        }
        return try body()
      }
    }
  }

  /// Waits until the secret that is being tried has been, and for `patience` at most: a lock leaves neither that nor
  /// what was derived from it in memory. Returns whether it has been: its derivation takes about a second.
  @discardableResult
  func waitForTrial(atMost patience: Duration = .seconds(3)) -> Bool {
    let before = ended.load(ordering: .sequentiallyConsistent)
    let end = MonotonicClock.now + patience
    while isTrying.load(ordering: .sequentiallyConsistent), ended.load(ordering: .sequentiallyConsistent) == before {
      if MonotonicClock.now >= end { return false }
      MonotonicClock.sleep(microseconds: 5000)
    }
    return true
  }

  /// The same for a call that brings a new secret with it.
  func attempt<Secret: ~Copyable>(
    _ new: consuming Secret, _ body: (consuming Secret) throws(ControlError) -> Void
  ) throws(VarlinkError) {
    // A closure cannot consume what it captures.
    var waiting: Secret? = consume new
    try attempt { () throws(ControlError) in try body(waiting.take()!) }
  }
}
