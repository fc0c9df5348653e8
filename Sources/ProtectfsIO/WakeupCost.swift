import Synchronization
import SystemPackage

// The daemon's alone, and musl lacks what it needs.
#if canImport(Glibc)
  /// How long it takes to wake a thread that waits on another processor: a processor that halts is soon awake, one that
  /// sleeps deeply, or that a hypervisor has taken back, is not.
  package struct WakeupCost: Sendable {
    /// The times of all wake-ups in nanoseconds, in ascending order.
    private let times: [Int64]

    /// Of the wake-ups that were tried: none, where there are too few to say anything.
    package init?(_ times: [Int64]) {
      guard times.count > Self.count / 2 else { return nil }
      self.times = times.sorted()
    }

    /// Wakes a thread some times, which takes up to 40 ms; `nil` where this process has one processor, or no threads,
    /// or the processors are so busy that it says nothing.
    package static func measure() -> WakeupCost? {
      let trial = Trial()
      guard let waker = try? Thread(starting: "waker", { trial.wake() }) else { return nil }
      waker.join()
      return WakeupCost(trial.times)
    }

    /// The median.
    package var median: Duration { .nanoseconds(times[times.count / 2]) }

    /// How many times the first quartile the third one is. Where that is much, the median says little.
    package var spread: Double { Double(times[times.count * 3 / 4]) / Double(max(1, times[times.count / 4])) }

    fileprivate static let count = 51
  }

  /// Two threads, one of which wakes the other after both of their processors had nothing to do.
  private final class Trial: Sendable {
    private let signal = Semaphore()
    private let wokenAt = Atomic<Int64>(0)
    private let isOver = Atomic(false)
    private let result = RankedMutex(.daemonCall, [Int64]())

    var times: [Int64] { result.withLock { $0 } }

    /// How long nothing is done before each, in microseconds.
    private static let rest: UInt32 = 200
    /// After which no further one is tried, in nanoseconds.
    private static let longest: Int64 = 40_000_000

    func wake() {
      guard let own = Self.bind(from: 0),
        let sleeper = try? Thread(starting: "sleeper", { [self] in sleep(on: own + 1) })
      else { return }
      defer {
        isOver.store(true, ordering: .sequentiallyConsistent)
        signal.post()
        sleeper.join()
      }
      let end = MonotonicClock.nanoseconds + Self.longest
      // It is bound.
      guard awaitWakeup(after: 0, until: end) != nil else { return }
      for _ in 0..<WakeupCost.count {
        Thread.sleep(microseconds: Self.rest)
        let start = MonotonicClock.nanoseconds
        signal.post()
        guard let time = awaitWakeup(after: start, until: end) else { return }
        result.withLock { $0.append(time - start) }
      }
    }

    /// When the other thread was woken; `nil` if it is not in time.
    private func awaitWakeup(after start: Int64, until end: Int64) -> Int64? {
      while true {
        let time = wokenAt.load(ordering: .acquiring)
        if time > start { return time }
        guard MonotonicClock.nanoseconds < end, !isOver.load(ordering: .relaxed) else { return nil }
      }
    }

    private func sleep(on first: Int) {
      guard Self.bind(from: first) != nil else { return isOver.store(true, ordering: .relaxed) }
      repeat {
        wokenAt.store(MonotonicClock.nanoseconds, ordering: .releasing)
        signal.wait()
      } while !isOver.load(ordering: .sequentiallyConsistent)
    }

    /// Binds the calling thread to the first processor that it may run on, from a number on, and returns that.
    private static func bind(from first: Int) -> Int? {
      (first..<max(first, Process.processorCount)).first { CommandRing.bindThread(to: $0) }
    }
  }
#endif
