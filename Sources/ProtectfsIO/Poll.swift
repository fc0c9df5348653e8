import ProtectfsLibc
import SystemPackage

/// Waiting for descriptors (poll(2)).
package enum Poll {
  /// What is waited for on a descriptor.
  package struct Event {
    fileprivate let entry: pollfd
    /// The results that count.
    fileprivate let results: Int16

    private init(_ descriptor: CInt, _ events: CInt, _ results: Int16 = ~0) {
      entry = pollfd(fd: descriptor, events: Int16(events), revents: 0)
      self.results = results
    }

    /// There is something to read, the other end is closed, or there is an error.
    package static func readable(_ descriptor: CInt) -> Event { Event(descriptor, POLLIN) }
    /// There is room to write.
    package static func writable(_ descriptor: CInt) -> Event { Event(descriptor, POLLOUT, Int16(POLLOUT)) }
    /// A file of the kernel has changed (proc(5)).
    package static func changed(_ descriptor: CInt) -> Event { Event(descriptor, POLLPRI) }
  }

  /// Waits until there is one of the events, for at most the given time, which is rounded up to milliseconds; `nil` for
  /// no limit. Returns for each event whether it is there. A negative descriptor has no events.
  package static func wait(for events: Event..., atMost time: Duration? = nil) throws(Errno) -> [Bool] {
    try wait(for: events, atMost: time)
  }

  /// The same for any number.
  package static func wait(for events: [Event], atMost time: Duration?) throws(Errno) -> [Bool] {
    let milliseconds = time.map { CInt(min(max($0 / .milliseconds(1), 0).rounded(.up), 1_000_000_000)) } ?? -1
    var entries = events.map(\.entry)
    try call("poll", unsafe poll(&entries, nfds_t(entries.count), milliseconds))
    return zip(events, entries).map { $0.results & $1.revents != 0 }
  }
}
