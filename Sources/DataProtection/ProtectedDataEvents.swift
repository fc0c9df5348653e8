import ProtectfsClient
import ProtectfsPolicy
import Synchronization

/// A change in what can be used: UIKit's three, for one mount and one class.
public enum ProtectedDataEvent: Sendable {
  /// The class can be used: after an unlock, after one that cancelled a lock, and at the start where it can.
  case didBecomeAvailable
  /// A lock was announced. What is open should be put away now; see ``LockHold`` for how long there is.
  case willBecomeUnavailable(LockHold)
  /// The keys are gone, or the daemon is.
  case didBecomeUnavailable
}

/// The time that a program has to put its files away, and the hold that it has on the lock meanwhile.
///
/// The lock waits for the release of each hold, but never longer than ``timeLimit``. A hold that is dropped is released.
public final class LockHold: Sendable {
  /// How long the lock waits at most, counted from its announcement. Where the lock is not held back, the grace period.
  public let timeLimit: Duration
  private let delay: Mutex<LockDelay?>

  init(_ delay: consuming LockDelay?, timeLimit: Duration) {
    self.timeLimit = timeLimit
    self.delay = Mutex(delay)
  }

  /// Lets the lock take effect, as far as this program is concerned. Doing it again has no effect.
  public func release() {
    delay.withLock { $0 = nil }
  }
}

/// The changes of a mount; see ``ProtectedData/events(at:of:delayingLocks:)``.
public struct ProtectedDataEvents: AsyncSequence, Sendable {
  /// A change.
  public typealias Element = ProtectedDataEvent

  let mount: FollowedMount
  let protectionClass: ProtectionClass
  let delaysLocks: Bool

  /// Begins to listen.
  public func makeAsyncIterator() -> AsyncStream<ProtectedDataEvent>.AsyncIterator {
    let (stream, continuation) = AsyncStream.makeStream(of: ProtectedDataEvent.self)
    let follower = MountFollower(mount, protectionClass, delaysLocks: delaysLocks) { continuation.yield($0) }
    continuation.onTermination = { _ in follower.cancel() }
    follower.start()
    return stream.makeAsyncIterator()
  }
}
