import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

/// A change of availability: UIKit's three, for one mount and one class.
public enum ProtectedDataEvent: Sendable {
  /// The class can be used: after an unlock, after an unlock that cancelled a lock, or at the start.
  case didBecomeAvailable
  /// A lock was announced. The program should put open files away now; ``LockHold`` says how much time there is.
  case willBecomeUnavailable(LockHold)
  /// The keys or the daemon are gone.
  case didBecomeUnavailable
}

/// The time that a program has to put its files away, and its hold on the lock.
///
/// The lock waits for the release of each hold, but never longer than ``timeLimit``. A hold that is dropped is
/// released.
public final class LockHold: Sendable {
  /// How long the lock waits at most, counted from its announcement; if the lock is not delayed, the grace period.
  public let timeLimit: Duration
  private let delay: RankedMutex<LockDelay?>

  init(_ delay: consuming LockDelay?, timeLimit: Duration) {
    self.timeLimit = timeLimit
    self.delay = RankedMutex(.lockHold, delay)
  }

  /// Releases the lock, as far as this program is concerned. Further calls have no effect.
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

  /// Starts to listen.
  public func makeAsyncIterator() -> AsyncStream<ProtectedDataEvent>.AsyncIterator {
    let (stream, continuation) = AsyncStream.makeStream(of: ProtectedDataEvent.self)
    let follower = MountFollower(mount, protectionClass, delaysLocks: delaysLocks) { continuation.yield($0) }
    continuation.onTermination = { _ in follower.cancel() }
    follower.start()
    return stream.makeAsyncIterator()
  }
}
