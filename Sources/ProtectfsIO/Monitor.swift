import ProtectfsLibc

/// State guarded by a lock, with a way to wait until it changes (pthread_cond_init(3)).
@safe package final class Monitor<State>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>
  private let order: LockOrder
  private var state: State

  package init(_ rank: LockRank, _ state: sending State) {
    order = LockOrder(rank)
    self.state = state
    unsafe mutex = .allocate(capacity: 1)
    unsafe condition = .allocate(capacity: 1)
    unsafe pthread_mutex_init(mutex, nil)
    var attributes = pthread_condattr_t()
    unsafe pthread_condattr_init(&attributes)
    unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    unsafe pthread_cond_init(condition, &attributes)
    unsafe pthread_condattr_destroy(&attributes)
  }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe pthread_mutex_destroy(mutex)
    unsafe condition.deallocate()
    unsafe mutex.deallocate()
  }

  /// Runs `body` with exclusive access to the state, then wakes all waiting threads.
  package func update<Result: ~Copyable, Failure: Error>(
    _ body: (inout State) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    lock()
    defer {
      unsafe pthread_cond_broadcast(condition)
      unlock()
    }
    return try body(&state)
  }

  /// Runs `body`, which only reads the state, with exclusive access.
  package func read<Result>(_ body: (State) -> Result) -> Result {
    lock()
    defer { unlock() }
    return body(state)
  }

  /// Waits until `body` returns a value other than `nil`. `body` is called at once, after each update, and at the time
  /// that it set in `deadline`.
  package func wait<Result>(_ body: (inout State, _ deadline: inout ContinuousClock.Instant?) -> Result?) -> Result {
    lock()
    defer { unlock() }
    while true {
      var deadline: ContinuousClock.Instant?
      if let result = body(&state, &deadline) {
        unsafe pthread_cond_broadcast(condition)
        return result
      }
      order.willWait()
      if let deadline {
        // The clock continues while the machine is suspended, and this wait does not: what is due then is late by as
        // much as one wait.
        let rest = min(max(deadline - .now, .milliseconds(1)), .seconds(2))
        var time = MonotonicClock.time(after: Int64(rest / .nanoseconds(1)))
        unsafe pthread_cond_timedwait(condition, mutex, &time)
      } else {
        unsafe pthread_cond_wait(condition, mutex)
      }
    }
  }

  private func lock() {
    order.willTake()
    unsafe pthread_mutex_lock(mutex)
  }

  private func unlock() {
    unsafe pthread_mutex_unlock(mutex)
    order.hasReleased()
  }
}
