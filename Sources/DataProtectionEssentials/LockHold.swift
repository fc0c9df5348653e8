import ProtectfsClient
import ProtectfsIO

/// The time that a program has to put its files away, and its hold on the lock.
///
/// The lock waits for the release of each hold, but never longer than ``timeLimit``. A hold that is dropped is
/// released. It has no effect any more when the lock has taken effect or was cancelled.
public final class LockHold: Sendable {
  /// How long the lock waits at most, counted from the event; if the lock is not delayed, the grace period, or zero if
  /// that is unknown.
  public let timeLimit: Duration
  private let delay: RankedMutex<AnnouncedDelay?>

  init(_ delay: AnnouncedDelay?, timeLimit: Duration) {
    self.timeLimit = timeLimit
    self.delay = RankedMutex(.lockHold, delay)
  }

  /// Another hold on the same lock, which is released separately.
  package func another() -> LockHold {
    LockHold(delay.withLock { $0 }, timeLimit: timeLimit)
  }

  /// Releases the lock, as far as this hold is concerned. Further calls have no effect.
  public func release() {
    delay.withLock { $0 = nil }
  }
}

/// This program's delay of an announced lock: released with the last of its holds, or by ``end()``.
final class AnnouncedDelay: Sendable {
  private let delay: RankedMutex<LockDelay?>
  /// How long the lock waits at most, counted from its announcement.
  let timeLimit: Duration

  init(_ delay: consuming LockDelay, timeLimit: Duration) {
    self.delay = RankedMutex(.announcedDelay, delay)
    self.timeLimit = timeLimit
  }

  /// Releases the delay whoever holds it: the lock has taken effect, or was cancelled.
  func end() {
    delay.withLock { $0 = nil }
  }
}
