import ProtectfsClient
import ProtectfsIO

/// The listeners of a daemon: what it tells goes to each of them.
package final class EventBroadcast: Sendable {
  private struct Listeners {
    var next: UInt64 = 0
    var all: [SubscriptionID: @Sendable (DaemonEvent) -> Void] = [:]
  }

  private let listeners = RankedMutex(.listeners, Listeners())

  /// A broadcast that nobody listens to yet.
  package init() {}

  /// Adds a listener; see ``DaemonControl/subscribe(_:)``.
  package func subscribe(_ deliver: @escaping @Sendable (DaemonEvent) -> Void) -> SubscriptionID {
    listeners.withLock {
      let identifier = SubscriptionID(number: $0.next)
      $0.next += 1
      $0.all[identifier] = deliver
      return identifier
    }
  }

  /// Removes a listener.
  package func unsubscribe(_ subscription: SubscriptionID) {
    listeners.withLock { $0.all[subscription] = nil }
  }

  /// Tells every listener. Deliveries are ordered as the calls are, and never wait for a client.
  package func send(_ event: DaemonEvent) {
    listeners.withLock { listeners in listeners.all.values.forEach { $0(event) } }
  }
}
