import Glibc
import ProtectfsIO
import Synchronization

/// The kernel's device, `/dev/fuse`.
///
/// The next request often comes a few microseconds after an answer, sooner than a thread falls asleep and is woken. So who
/// waits for one polls for a moment before it sleeps, as long as that proves worthwhile.
final class RequestDevice: Sendable {
  /// How long to poll, in nanoseconds: about what it costs to be woken.
  private static let patience: Int64 = 50_000
  /// Who finds that so much time is gone between two looks has lost the processor to others, in nanoseconds.
  private static let contention: Int64 = 10_000
  /// For how long not to poll then, in nanoseconds.
  private static let backoff: Int64 = 4_000_000
  /// How often to poll in vain before sleeping at once, until requests come fast again.
  private static let attempts = 8

  private let descriptor: Int32
  /// What was taken from the kernel and put off comes before what is new.
  let backlog: Backlog
  private let attemptsLeft = Atomic<Int>(RequestDevice.attempts)
  private let contendedUntil = Atomic<Int64>(0)

  /// Takes over reading from a device.
  init(_ descriptor: Int32, _ backlog: Backlog) {
    self.descriptor = descriptor
    self.backlog = backlog
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
  }

  /// Polls for a request. Returns its bytes, or 0 if none came, or -1 when the connection has ended.
  func poll(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    let left = attemptsLeft.load(ordering: .relaxed)
    var now = MonotonicClock.nanoseconds
    guard left > 0, now > contendedUntil.load(ordering: .relaxed) else { return 0 }
    let end = now + Self.patience
    var count = 0
    while count == 0, now < end {
      // Not sched_yield(2): on a busy processor that gives a whole time slice away.
      Thread.pause()
      count = unsafe read(into: buffer)
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

  /// Waits for so long at most until the kernel has a request, or the connection has ended; returns whether.
  func hasNewRequest(milliseconds: CInt) -> Bool {
    var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return unsafe Glibc.poll(&event, 1, milliseconds) > 0
  }

  /// Sleeps until there is a request. Returns its bytes, or -1 when the connection has ended.
  func wait(into buffer: UnsafeMutableRawBufferPointer) -> Int {
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
      count = unsafe read(into: buffer)
    }
    if MonotonicClock.nanoseconds - start < Self.patience { attemptsLeft.store(Self.attempts, ordering: .relaxed) }
    return count
  }

  /// Takes a request, if there is one: its bytes, or 0 if not, or -1 when the connection has ended.
  func read(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    if !backlog.isEmpty {
      let count = unsafe backlog.take(into: buffer)
      if count > 0 { return count }
    }
    return unsafe readNew(into: buffer)
  }

  /// The same, of what the kernel has.
  func readNew(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    while true {
      let count = unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count)
      if count > 0 { return count }
      switch count == 0 ? ENODEV : errno {
      case EAGAIN: return 0
      // ENOENT: the request has been taken back. EIO, ENOMEM: the kernel has answered it with that itself.
      case EINTR, ENOENT, EIO, ENOMEM: continue
      default: return -1
      }
    }
  }
}
