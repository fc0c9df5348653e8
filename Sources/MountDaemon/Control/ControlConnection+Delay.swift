import Glibc
import ProtectfsClient
import ProtectfsIO
import SystemPackage

// The call by which a client holds a lock back.
extension ControlConnection {
  /// Registers the client, tells it when a lock is announced, and releases the delay when the client says anything else
  /// or goes: the kernel closes the socket of one that was killed.
  func delayLock() throws(MessageError) {
    let announcement: LockAnnouncement
    do throws(Errno) { announcement = try LockAnnouncement() } catch { throw .ended }
    let delay = control.delayLock { announcement.come($0) }
    defer { control.releaseDelay(delay) }
    try send(VarlinkReply(DelayReply(seconds: nil), continues: true).encoded())
    guard let longest = try waitForAnnouncement(announcement) else {
      // The client asks for something else: the call that it waited with is answered first.
      return try send(VarlinkReply(DelayReply(seconds: nil)).encoded())
    }
    try send(VarlinkReply(DelayReply(seconds: longest.inSeconds)).encoded())
    try waitForClient(longest + limits.idle)
  }

  /// Waits until a lock is announced; `nil` where the client says something before.
  private func waitForAnnouncement(_ announcement: LockAnnouncement) throws(MessageError) -> Duration? {
    while true {
      var entries = [
        pollfd(fd: announcement.signal.rawValue, events: Int16(POLLIN), revents: 0),
        pollfd(fd: socket.rawValue, events: Int16(POLLIN), revents: 0),
      ]
      let result = unsafe poll(&entries, 2, -1)
      if result < 0 && errno != EINTR { throw .ended }
      guard result > 0 else { continue }
      if entries[1].revents != 0 { return nil }
      if let longest = announcement.longest { return longest }
    }
  }

  /// Waits until the client says something or goes.
  private func waitForClient(_ longest: Duration) throws(MessageError) {
    let deadline = ContinuousClock.now + longest
    while true {
      let milliseconds = (deadline - .now) / .milliseconds(1)
      guard milliseconds > 0 else { throw .timedOut }
      var entry = pollfd(fd: socket.rawValue, events: Int16(POLLIN), revents: 0)
      let result = unsafe poll(&entry, 1, CInt(min(milliseconds.rounded(.up), 60_000)))
      if result > 0 { return }
      if result < 0 && errno != EINTR { throw .ended }
    }
  }
}

/// The announcement of a lock on its way to one client. Whoever announces never waits.
private final class LockAnnouncement: Sendable {
  private let announced = RankedMutex<Duration?>(.lockAnnouncement, nil)
  private let wakeUp: LocalSocket
  /// Readable when the announcement has come; for poll(2).
  let signal: LocalSocket

  init() throws(Errno) {
    let ends = try LocalSocket.pair()
    signal = LocalSocket(owning: ends.0)
    wakeUp = LocalSocket(owning: ends.1)
  }

  /// How long the lock waits at most; `nil` before it was announced.
  var longest: Duration? { announced.withLock { $0 } }

  /// It has come. Once only, so that there is room for its byte.
  func come(_ longest: Duration) {
    announced.withLock { $0 = longest }
    try? wakeUp.send([1])
  }
}
