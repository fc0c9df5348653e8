import ProtectfsClient
import ProtectfsIO
import SystemPackage

// The call by which a client holds a lock back.
extension ControlConnection {
  /// Registers the client, tells it when a lock is announced, and releases the delay when the client says anything else
  /// or goes: the kernel closes the socket of one that was killed.
  func delayLock() throws(MessageError) {
    let announcements: EventQueue<Duration>
    do throws(Errno) { announcements = try EventQueue(capacity: 1) } catch { throw .ended }
    let delay = control.delayLock { announcements.append($0) }
    defer { control.releaseDelay(delay) }
    try send(VarlinkReply(DelayReply(seconds: nil), continues: true).encoded())
    guard try !clientSpeaks(orComes: announcements.signal), let longest = announcements.takeAll().events.first else {
      // The client asks for something else: the call that it waited with is answered first.
      return try send(VarlinkReply(DelayReply(seconds: nil)).encoded())
    }
    try send(VarlinkReply(DelayReply(seconds: longest.inSeconds)).encoded())
    _ = try clientSpeaks(within: longest + limits.idle)
  }
}
