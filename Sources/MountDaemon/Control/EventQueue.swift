import Glibc
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// The events that wait for one listening client, and a descriptor that says when there are some.
///
/// The daemon's threads put events in and never wait; a client that reads too slowly loses the newest ones and is told
/// how many.
final class EventQueue: Sendable {
  private struct Contents {
    var events: [DaemonEvent] = []
    var dropped = 0
  }

  private let capacity: Int
  private let contents = RankedMutex(.eventQueue, Contents())
  private let wakeUp: LocalSocket
  /// Readable while events wait; for poll(2).
  let signal: LocalSocket

  init(capacity: Int) throws(Errno) {
    self.capacity = capacity
    var pair: (CInt, CInt) = (-1, -1)
    let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let result = unsafe withUnsafeMutablePointer(to: &pair) { pointer in
      unsafe pointer.withMemoryRebound(to: CInt.self, capacity: 2) { unsafe socketpair(AF_UNIX, type, 0, $0) }
    }
    let failure = errno
    signal = LocalSocket(owning: pair.0)
    wakeUp = LocalSocket(owning: pair.1)
    guard result == 0 else { throw Errno(rawValue: failure) }
  }

  /// Adds an event, or counts it where the queue is full.
  func append(_ event: DaemonEvent) {
    let wasEmpty = contents.withLock { contents in
      guard contents.events.count < capacity else {
        contents.dropped += 1
        return false
      }
      contents.events.append(event)
      return contents.events.count == 1
    }
    // A full socket is readable already.
    if wasEmpty { try? wakeUp.send([1]) }
  }

  /// Takes out what waits.
  func takeAll() -> [DaemonEvent] {
    var drained = [UInt8](repeating: 0, count: 64)
    _ = try? signal.receive(into: &drained)
    return contents.withLock { contents in
      defer { contents = Contents() }
      return contents.dropped == 0 ? contents.events : contents.events + [.eventsDropped(contents.dropped)]
    }
  }
}
