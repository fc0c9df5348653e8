import Glibc
import LinuxIO
import Synchronization

/// The kernel's device, `/dev/fuse`.
///
/// The next request often comes a few microseconds after an answer, sooner than a thread falls asleep and is woken. So who
/// waits for one polls for a moment before it sleeps, as long as that proves worthwhile.
final class RequestDevice: Sendable {
  /// How long to poll, in nanoseconds: about what it costs to be woken.
  private static let patience: Int64 = 50_000
  /// How often to poll in vain before sleeping at once, until requests come fast again.
  private static let attempts = 8

  private let descriptor: Int32
  private let attemptsLeft = Atomic<Int>(RequestDevice.attempts)

  /// Takes over reading from a device.
  init(_ descriptor: Int32) {
    self.descriptor = descriptor
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
  }

  /// Polls for a request. Returns its bytes, or 0 if none came, or -1 when the connection has ended.
  func poll(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    let left = attemptsLeft.load(ordering: .relaxed)
    guard left > 0 else { return 0 }
    let end = MonotonicClock.nanoseconds + Self.patience
    var count = 0
    while count == 0, MonotonicClock.nanoseconds < end {
      // Who is to ask may wait for this very processor.
      sched_yield()
      count = unsafe read(into: buffer)
    }
    attemptsLeft.store(count != 0 ? Self.attempts : left - 1, ordering: .relaxed)
    return count
  }

  /// Sleeps until there is a request. Returns its bytes, or -1 when the connection has ended.
  func wait(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    let start = MonotonicClock.nanoseconds
    var count = 0
    while count == 0 {
      var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      unsafe Glibc.poll(&event, 1, -1)
      count = unsafe read(into: buffer)
    }
    if MonotonicClock.nanoseconds - start < Self.patience { attemptsLeft.store(Self.attempts, ordering: .relaxed) }
    return count
  }

  /// Reads a request, if there is one: its bytes, or 0 if not, or -1 when the connection has ended.
  func read(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    while true {
      let count = unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count)
      if count > 0 { return count }
      switch count == 0 ? ENODEV : errno {
      case EAGAIN: return 0
      case EINTR, ENOENT: continue  // ENOENT: the request has been taken back
      default: return -1
      }
    }
  }
}
