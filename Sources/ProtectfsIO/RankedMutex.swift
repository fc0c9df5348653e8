import Synchronization

/// A `Mutex` with a rank: in release builds a `Mutex` and nothing else.
///
/// It is public, and so are ``LockRank`` and ``LockOrder``, because the compiler inlines nothing else into other
/// modules.
public struct RankedMutex<Value: ~Copyable>: ~Copyable {
  @usableFromInline let mutex: Mutex<Value>
  @usableFromInline let order: LockOrder

  /// A mutex with a rank that guards a value.
  @inlinable public init(_ rank: LockRank, _ value: consuming sending Value) {
    mutex = Mutex(value)
    order = LockOrder(rank)
  }

  /// Runs `body` alone with the value.
  @inlinable @inline(__always)
  public borrowing func withLock<Result: ~Copyable, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    order.willTake()
    defer { order.hasReleased() }
    return try mutex.withLock(body)
  }

  /// The same where no other thread has the lock now; returns `nil` where one has.
  @inlinable @inline(__always)
  public borrowing func withLockIfAvailable<Result: ~Copyable, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result? {
    order.willTake()
    defer { order.hasReleased() }
    return try mutex.withLockIfAvailable(body)
  }
}

extension RankedMutex: @unchecked Sendable where Value: ~Copyable {}
