import Glibc
import ProtectfsIO
import Synchronization

/// The kernel's device, `/dev/fuse`.
///
/// The next request often comes a few microseconds after an answer, sooner than a thread can fall asleep and be woken.
/// A worker that waits for one therefore polls for a moment before it sleeps, as long as that proves worthwhile.
final class RequestDevice: Sendable {
  /// How long to poll, in nanoseconds: about the cost of being woken.
  private static let patience: Int64 = 50_000
  /// If two polls are this far apart, the thread has lost the processor to others, in nanoseconds.
  private static let contention: Int64 = 10_000
  /// How long not to poll in that case, in nanoseconds.
  private static let backoff: Int64 = 4_000_000
  /// The number of unsuccessful polls after which workers sleep at once, until requests come fast again.
  private static let attempts = 8

  private let descriptor: Int32
  /// Deferred requests are taken before new ones.
  let backlog: Backlog
  private let attemptsLeft = Atomic<Int>(RequestDevice.attempts)
  private let contendedUntil = Atomic<Int64>(0)

  /// Takes over reading from a device.
  init(_ descriptor: Int32, _ backlog: Backlog) {
    self.descriptor = descriptor
    self.backlog = backlog
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
  }

  /// Polls for a request. Returns its length in bytes, 0 if none came, or -1 when the connection has ended.
  func poll(into buffer: UnsafeMutableRawBufferPointer, for served: ServedRequest) -> Int {
    let left = attemptsLeft.load(ordering: .relaxed)
    var now = MonotonicClock.nanoseconds
    guard left > 0, now > contendedUntil.load(ordering: .relaxed) else { return 0 }
    let end = now + Self.patience
    var count = 0
    while count == 0, now < end {
      // sched_yield(2) is not used: on a busy processor it gives a whole time slice away.
      Thread.pause()
      count = unsafe read(into: buffer, for: served)
      let before = now
      now = MonotonicClock.nanoseconds
      if count == 0, now - before > Self.contention {
        contendedUntil.store(now + Self.backoff, ordering: .relaxed)
        return 0
      }
    }
    attemptsLeft.store(count != 0 ? Self.attempts : left - 1, ordering: .relaxed)
    return count
  }

  /// Whether a request waits to be read, or the connection has ended.
  var hasRequest: Bool { !backlog.isEmpty || hasNewRequest(milliseconds: 0) }

  /// Waits until the kernel has a request or the connection has ended, for at most the given time. Returns whether
  /// either is so.
  func hasNewRequest(milliseconds: CInt) -> Bool {
    var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return unsafe Glibc.poll(&event, 1, milliseconds) > 0
  }

  /// Sleeps until there is a request. Returns its length in bytes, or -1 when the connection has ended.
  func wait(into buffer: UnsafeMutableRawBufferPointer, for served: ServedRequest) -> Int {
    let start = MonotonicClock.nanoseconds
    var count = 0
    while count == 0 {
      var events = (
        pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
        pollfd(fd: backlog.signal.rawValue, events: Int16(POLLIN), revents: 0)
      )
      unsafe withUnsafeMutableBytes(of: &events) { bytes in
        _ = unsafe Glibc.poll(bytes.bindMemory(to: pollfd.self).baseAddress, 2, -1)
      }
      count = unsafe read(into: buffer, for: served)
    }
    if MonotonicClock.nanoseconds - start < Self.patience { attemptsLeft.store(Self.attempts, ordering: .relaxed) }
    return count
  }

  /// Takes a request if there is one. Returns its length in bytes, 0 if there is none, or -1 when the connection has
  /// ended.
  func read(into buffer: UnsafeMutableRawBufferPointer, for served: ServedRequest) -> Int {
    served.willTake()
    var count = backlog.isEmpty ? 0 : unsafe backlog.take(into: buffer)
    if count == 0 { count = unsafe readNew(into: buffer) }
    if count <= 0 { served.end() }
    return count
  }

  /// Takes a request from the kernel, not from the backlog.
  func readNew(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    while true {
      let count = unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count)
      if count > 0 { return count }
      switch count == 0 ? ENODEV : errno {
      case EAGAIN: return 0
      // ENOENT: the request was withdrawn. EIO, ENOMEM: the kernel has answered it with that error itself.
      case EINTR, ENOENT, EIO, ENOMEM: continue
      default: return -1
      }
    }
  }
}
