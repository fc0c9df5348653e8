import CProtectfsIO

/// A lock that readers share and a writer takes exclusively (pthread_rwlock_init(3)).
@safe package final class ReaderWriterLock: @unchecked Sendable {
  private let storage: UnsafeMutableRawPointer
  private let order: LockOrder

  package init(_ rank: LockRank) {
    order = LockOrder(rank)
    unsafe storage = .allocate(byteCount: Int(linux_rwlock_size()), alignment: 16)
    unsafe linux_rwlock_init(storage)
  }

  deinit {
    unsafe linux_rwlock_destroy(storage)
    unsafe storage.deallocate()
  }

  /// Runs `body` with the lock held shared.
  @inline(__always)
  package func read<Result: ~Copyable, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
    order.willTake()
    unsafe linux_rwlock_read(storage)
    defer { unlock() }
    return try body()
  }

  /// Runs `body` with the lock held exclusively.
  @inline(__always)
  package func write<Result: ~Copyable, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result
  {
    order.willTake()
    unsafe linux_rwlock_write(storage)
    defer { unlock() }
    return try body()
  }

  /// Runs `body` with the lock held exclusively, if it is released by a time of ``MonotonicClock``. Returns whether it
  /// ran.
  package func write(until nanoseconds: Int64, _ body: () -> Void) -> Bool {
    order.willTake()
    guard unsafe linux_rwlock_write_until(storage, nanoseconds) == 0 else {
      order.hasReleased()
      return false
    }
    defer { unlock() }
    body()
    return true
  }

  /// Takes the lock exclusively until the same thread calls ``endWriting()``, for a caller that holds the locks of
  /// several things at once.
  package func beginWriting() {
    order.willTake(isOneOfSeveral: true)
    unsafe linux_rwlock_write(storage)
  }

  package func endWriting() { unlock() }

  @inline(__always)
  private func unlock() {
    unsafe linux_rwlock_unlock(storage)
    order.hasReleased()
  }
}
