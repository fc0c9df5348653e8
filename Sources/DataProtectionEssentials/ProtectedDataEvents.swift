import ProtectfsClient
import ProtectfsPolicy

/// A change of availability: UIKit's three, for one mount and one class. There will be no others.
public enum ProtectedDataEvent: Sendable {
  /// The class can be used: after an unlock, after an unlock that cancelled a lock, or at the start.
  case didBecomeAvailable
  /// A lock was announced. The program should put open files away now; ``LockHold`` says how much time there is.
  case willBecomeUnavailable(LockHold)
  /// The keys or the daemon are gone.
  case didBecomeUnavailable
}

/// The changes of a mount; see ``ProtectedData/events(at:of:delayingLocks:)``.
public struct ProtectedDataEvents: AsyncSequence, Sendable {
  /// A change.
  public typealias Element = ProtectedDataEvent
  /// Listening does not fail.
  public typealias Failure = Never

  let mount: FollowedMount
  let protectionClass: ProtectionClass
  let delaysLocks: Bool

  /// Starts to listen.
  public func makeAsyncIterator() -> Iterator {
    Iterator(mount, protectionClass, delaysLocks: delaysLocks)
  }

  /// Listens until it is dropped, or the task that asks it for events is cancelled. A lock does not wait for events
  /// that were not asked for by then.
  public struct Iterator: AsyncIteratorProtocol {
    private let listening: Listening

    init(_ mount: FollowedMount, _ protectionClass: ProtectionClass, delaysLocks: Bool) {
      listening = Listening(mount, protectionClass, delaysLocks: delaysLocks)
    }

    /// Waits for the next event; `nil` if the task was cancelled.
    public mutating func next() async -> ProtectedDataEvent? {
      await listening.mailbox.next()
    }

    /// Waits for the next event; `nil` if the task was cancelled.
    public mutating func next(isolation actor: isolated (any Actor)?) async -> ProtectedDataEvent? {
      await listening.mailbox.next(isolation: actor)
    }
  }

  /// Ends with the last copy of the iterator.
  private final class Listening: Sendable {
    let mailbox: EventMailbox
    private let listener: ProtectedDataListener

    init(_ mount: FollowedMount, _ protectionClass: ProtectionClass, delaysLocks: Bool) {
      let mailbox = EventMailbox()
      let listener = ProtectedDataListener(mount, protectionClass, delaysLocks: delaysLocks) { mailbox.append($0) }
      self.mailbox = mailbox
      self.listener = listener
      mailbox.whenEnded { MountWatcher.shared.remove(listener) }
      MountWatcher.shared.add(listener)
    }

    deinit {
      mailbox.end()
    }
  }
}
