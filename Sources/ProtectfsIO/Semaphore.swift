import CProtectfsIO
import ProtectfsLibc

// The daemon's alone, and musl lacks what it needs.
#if canImport(Glibc)
  /// A POSIX semaphore (sem_overview(7)) that starts at 0.
  @safe package final class Semaphore: @unchecked Sendable {
    private let semaphore: UnsafeMutablePointer<sem_t>

    package init() {
      unsafe semaphore = .allocate(capacity: 1)
      unsafe sem_init(semaphore, 0, 0)
    }

    deinit {
      unsafe sem_destroy(semaphore)
      unsafe semaphore.deallocate()
    }

    package func post() {
      unsafe sem_post(semaphore)
    }

    package func wait() {
      LockOrder.requireCallsAllowed("sem_wait")
      while unsafe sem_wait(semaphore) != 0 {}  // EINTR
    }

    /// Waits for at most the given time. Returns whether there was a post.
    package func wait(microseconds: Int64) -> Bool {
      var time = MonotonicClock.time(after: microseconds * 1000)
      return (try? call("sem_clockwait", unsafe sem_clockwait(semaphore, CLOCK_MONOTONIC, &time))) != nil
    }
  }
#endif
