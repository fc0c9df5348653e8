import CProtectfsIO
import ProtectfsLibc

// The daemon's alone, and musl lacks what it needs.
#if canImport(Glibc)
  /// A lock that readers share and a writer takes exclusively (pthread_rwlock_init(3)).
  @safe package final class ReaderWriterLock: @unchecked Sendable {
    private let storage: UnsafeMutablePointer<pthread_rwlock_t>
    private let order: LockOrder

    package init(_ rank: LockRank) {
      order = LockOrder(rank)
      unsafe storage = .allocate(capacity: 1)
      // Many readers must not block a writer for ever.
      var attributes = pthread_rwlockattr_t()
      unsafe pthread_rwlockattr_init(&attributes)
      unsafe pthread_rwlockattr_setkind_np(&attributes, CInt(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP))
      unsafe pthread_rwlock_init(storage, &attributes)
      unsafe pthread_rwlockattr_destroy(&attributes)
    }

    deinit {
      unsafe pthread_rwlock_destroy(storage)
      unsafe storage.deallocate()
    }

    /// Runs `body` with the lock held shared.
    @inline(__always)
    package func read<Result: ~Copyable, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result
    {
      order.willTake()
      unsafe pthread_rwlock_rdlock(storage)
      defer { unlock() }
      return try body()
    }

    /// Runs `body` with the lock held exclusively.
    @inline(__always)
    package func write<Result: ~Copyable, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure)
      -> Result
    {
      order.willTake()
      unsafe pthread_rwlock_wrlock(storage)
      defer { unlock() }
      return try body()
    }

    /// Runs `body` with the lock held exclusively, if it is released by a time of ``MonotonicClock``. Returns whether
    /// it ran.
    package func write(until nanoseconds: Int64, _ body: () -> Void) -> Bool {
      order.willTake()
      guard isTaken(by: nanoseconds) else { return false }
      defer { unlock() }
      body()
      return true
    }

    /// Takes the lock exclusively until the same thread calls ``endWriting()``, for a caller that holds the locks of
    /// several things at once.
    package func beginWriting() {
      order.willTake(isOneOfSeveral: true)
      unsafe pthread_rwlock_wrlock(storage)
    }

    /// The same, if the lock is released by a time of ``MonotonicClock``. Returns whether it was taken.
    package func beginWriting(until nanoseconds: Int64) -> Bool {
      order.willTake(isOneOfSeveral: true)
      return isTaken(by: nanoseconds)
    }

    package func endWriting() { unlock() }

    private func isTaken(by nanoseconds: Int64) -> Bool {
      var time = MonotonicClock.time(nanoseconds)
      if unsafe pthread_rwlock_clockwrlock(storage, CLOCK_MONOTONIC, &time) == 0 { return true }
      order.hasReleased()
      return false
    }

    @inline(__always)
    private func unlock() {
      unsafe pthread_rwlock_unlock(storage)
      order.hasReleased()
    }
  }
#endif
