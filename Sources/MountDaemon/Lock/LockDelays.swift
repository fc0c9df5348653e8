import ProtectfsPolicy

/// The clients that hold an announced lock back, and those that will hold the next one.
///
/// They have a time that is counted from the announcement. A shorter lock that comes after it leaves them no more than
/// it would have given them itself.
struct LockDelays {
  /// Told how long the lock waits at most, from its announcement.
  typealias Announced = @Sendable (Duration) -> Void

  /// How long a lock may be held back, unless its grace period is longer.
  private let limit: Duration
  private var next: UInt64 = 0
  private var registered: [LockDelayID: Announced] = [:]
  private var holding: Set<LockDelayID> = []
  /// When the announced lock waits no longer.
  private var bound: ContinuousClock.Instant?

  init(limit: Duration) {
    self.limit = limit
  }

  /// The clients that hold the announced lock back.
  var count: Int { holding.count }

  /// Has a client hold back the next lock that is announced.
  mutating func register(_ announced: @escaping Announced) -> LockDelayID {
    next += 1
    let delay = LockDelayID(number: next)
    registered[delay] = announced
    return delay
  }

  /// The client holds nothing back any more. Returns what it was to be told by, for the caller to let go of.
  @discardableResult
  mutating func release(_ delay: LockDelayID) -> Announced? {
    holding.remove(delay)
    return registered.removeValue(forKey: delay)
  }

  /// A lock is announced: the clients that have registered hold it back, and are to be told by what is returned. Where
  /// there is no grace period they are not, and go on waiting.
  mutating func announce(
    at now: ContinuousClock.Instant, gracePeriod: Duration
  ) -> [LockMachine.Announcement] {
    guard gracePeriod > .zero else { return [] }
    let longest = max(limit, gracePeriod)
    bound = now + longest
    holding = Set(registered.keys)
    defer { registered = [:] }
    return registered.values.map { announced in { announced(longest) } }
  }

  /// A shorter lock takes the place of the announced one.
  mutating func shorten(at now: ContinuousClock.Instant, gracePeriod: Duration) {
    bound = bound.map { min($0, now + max(limit, gracePeriod)) }
  }

  /// The announced lock is held back no more: it takes effect, was cancelled, or may not wait.
  mutating func end() {
    holding = []
    bound = nil
  }

  /// When the announced lock takes effect at the latest, given the end of its grace period.
  func effect(after gracePeriodEnd: ContinuousClock.Instant) -> ContinuousClock.Instant {
    guard !holding.isEmpty, let bound else { return gracePeriodEnd }
    return max(bound, gracePeriodEnd)
  }
}
