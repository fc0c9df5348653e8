import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// What waits for one client whose replies are a stream, and a descriptor that says when there is something.
///
/// The daemon's threads put events in and never wait; a client that reads too slowly loses the newest ones and is told
/// how many.
final class EventQueue<Event: Sendable>: Sendable {
  typealias Contents = (events: [Event], dropped: Int)

  private let capacity: Int
  private let contents = RankedMutex<Contents>(.eventQueue, ([], 0))
  /// Readable while events wait; for poll(2).
  let signal: EventDescriptor

  init(capacity: Int) throws(Errno) {
    self.capacity = capacity
    signal = try EventDescriptor()
  }

  /// Adds an event, or counts it where the queue is full.
  func append(_ event: Event) {
    let wasEmpty = contents.withLock { contents in
      guard contents.events.count < capacity else {
        contents.dropped += 1
        return false
      }
      contents.events.append(event)
      return contents.events.count == 1
    }
    if wasEmpty { signal.raise() }
  }

  /// Takes out what waits.
  func takeAll() -> Contents {
    signal.clear()
    return contents.withLock { contents in
      defer { contents = ([], 0) }
      return contents
    }
  }
}

extension EventQueue<DaemonEvent> {
  /// Takes out what waits, and says what was dropped.
  func takeAll() -> [DaemonEvent] {
    let (events, dropped) = takeAll() as Contents
    return dropped == 0 ? events : events + [.eventsDropped(dropped)]
  }
}
