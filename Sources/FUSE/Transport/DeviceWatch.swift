import ProtectfsIO
import Synchronization

/// The leader–follower scheme: which workers are at the kernel's device to take requests, and which are idle until they
/// are promoted.
///
/// Waking a thread costs more than serving most requests. So as a rule one worker is at the device, and itself serves
/// what it takes: it is back before the next request, and no thread was woken. It promotes another worker before it
/// serves a request that may take long, and when requests queue up. A worker that finds no request while others are at
/// the device becomes idle. If a request takes longer than expected, the *watchdog* helps: an idle worker that checks
/// once per tick whether any worker is at the device, and goes there itself if none is.
final class DeviceWatch: Sendable {
  /// The number of ticks without a request after which the watchdog sleeps until there is one.
  static let quietTicks = 4
  /// If the workers take fewer requests than this in a tick while more are waiting, they wait for a disk and not for a
  /// processor, so more workers help.
  private static let processorBound: UInt64 = 32

  struct Waiting {
    var watchdog: Int?
    /// The other idle workers.
    var idle: [Int] = []
    /// For each worker, whether it was promoted. A worker is woken for this.
    var isPromoted: [Bool]
    /// The reserve sleeps until no worker is idle.
    var isReserveAsleep = false

    var isEmpty: Bool { watchdog == nil && idle.isEmpty }

    /// Whether the reserve must be woken, because no idle worker is left.
    mutating func wakesReserve() -> Bool {
      guard isReserveAsleep, isEmpty else { return false }
      isReserveAsleep = false
      return true
    }
  }

  let waiting: RankedMutex<Waiting>
  let device: RequestDevice
  let semaphores: [Semaphore]
  private let processors = Process.processorCount
  /// The number of leaders: workers at the device or on their way there.
  let leaders = Atomic<Int>(0)
  /// The number of requests taken.
  let taken = Atomic<UInt64>(0)
  /// The number of requests that the workers are done with.
  let served = Atomic<UInt64>(0)
  /// The semaphore that the reserve sleeps on. As a sleeper, its number follows those of the workers.
  let reserveSemaphore = Semaphore()
  let hasEnded = Atomic(false)
  /// The worker that sleeps as the watchdog, or -1.
  let sleeper = Atomic<Int>(-1)
  let ticks: WatchTicks
  private let hold: BurstHold?

  /// `hold`, if given, is told of bursts of requests.
  init(_ device: RequestDevice, workers: Int, hold: BurstHold?, ticks: WatchTicks) {
    self.device = device
    self.ticks = ticks
    self.hold = hold
    waiting = RankedMutex(.idleWorkers, Waiting(isPromoted: Array(repeating: false, count: workers)))
    semaphores = (0..<workers).map { _ in Semaphore() }
  }

  // MARK: At the device

  /// Makes the calling worker a leader, which takes requests from the device.
  func becomeLeader() {
    leaders.wrappingAdd(1, ordering: .sequentiallyConsistent)
  }

  /// Leaves the device with a request to serve, and promotes another worker if the request may take long or requests
  /// queue up.
  func stepDown(mayTakeLong: Bool, hasQueue: Bool) {
    taken.wrappingAdd(1, ordering: .sequentiallyConsistent)
    let others = leaders.wrappingSubtract(1, ordering: .sequentiallyConsistent).newValue
    if mayTakeLong && others == 0 {
      promote()
    } else if hasQueue {
      promote(upTo: processors)
    }
    if sleeper.load(ordering: .sequentiallyConsistent) >= 0 { wakeSleeper() }
  }

  /// A worker is done with a request.
  func finish() { served.wrappingAdd(1, ordering: .sequentiallyConsistent) }

  /// Promotes an idle worker if none is at the device.
  func promoteIfLeaderless() {
    if leaders.load(ordering: .sequentiallyConsistent) == 0 { promote() }
  }

  /// Whether no other worker is at the device.
  var isOnlyLeader: Bool { leaders.load(ordering: .sequentiallyConsistent) <= 1 }

  /// Leaves the device for good, and makes sure that another worker is there.
  func end() {
    leaders.wrappingSubtract(1, ordering: .sequentiallyConsistent)
    hasEnded.store(true, ordering: .sequentiallyConsistent)
    reserveSemaphore.post()
    promote()
  }

  /// Becomes idle if another worker is at the device. Returns when this worker is promoted.
  func follow(_ worker: Int) {
    var others = leaders.load(ordering: .sequentiallyConsistent) - 1
    while others > 0 {
      let (isDone, now) = leaders.compareExchange(
        expected: others + 1, desired: others, ordering: .sequentiallyConsistent)
      if isDone { return wait(worker) }
      others = now - 1
    }
  }

  // MARK: Idle workers

  /// Promotes an idle worker, if there is one and fewer than `limit` workers are active.
  private func promote(upTo limit: Int = .max) {
    let (promoted, wakesReserve) = waiting.withLock { waiting -> (Int?, Bool) in
      let waitingCount = waiting.idle.count + (waiting.watchdog == nil ? 0 : 1)
      guard semaphores.count - waitingCount < limit else { return (nil, false) }
      guard let worker = waiting.idle.popLast() ?? waiting.watchdog.take() else { return (nil, waiting.wakesReserve()) }
      waiting.isPromoted[worker] = true
      leaders.wrappingAdd(1, ordering: .sequentiallyConsistent)
      return (worker, waiting.wakesReserve())
    }
    if let promoted { semaphores[promoted].post() }
    if wakesReserve { reserveSemaphore.post() }
  }

  private func wait(_ worker: Int) {
    let waits = waiting.withLock { waiting in
      // The others may have left the device and found no idle worker.
      if leaders.load(ordering: .sequentiallyConsistent) == 0 {
        becomeLeader()
        return false
      }
      if waiting.watchdog == nil { waiting.watchdog = worker } else { waiting.idle.append(worker) }
      return true
    }
    guard waits else { return }
    while true {
      switch role(of: worker) {
      case .promoted: return endBurstIfUnwatched()
      case .idle: semaphores[worker].wait()
      case .watchdog: if watch(worker) { return endBurstIfUnwatched() }
      }
    }
  }

  private enum Role {
    case promoted, idle, watchdog
  }

  private func role(of worker: Int) -> Role {
    waiting.withLock { waiting in
      if waiting.watchdog == worker { return .watchdog }
      if !waiting.isPromoted[worker] { return .idle }
      waiting.isPromoted[worker] = false
      return .promoted
    }
  }

  // MARK: The watchdog

  /// Watches the device. Returns `true` when the watchdog goes there itself, `false` when it was woken.
  private func watch(_ worker: Int) -> Bool {
    var last = taken.load(ordering: .sequentiallyConsistent)
    var quietTicks = 0
    var rate = RequestRate(looksEvery: ticks.watchdog)
    while true {
      let isQuiet = quietTicks >= Self.quietTicks && leaders.load(ordering: .sequentiallyConsistent) > 0
      let isWoken = isQuiet ? sleep(worker, since: last) : semaphores[worker].wait(microseconds: ticks.watchdog)
      if isWoken { return false }
      let now = taken.load(ordering: .sequentiallyConsistent)
      if now - last < Self.processorBound, leaders.load(ordering: .sequentiallyConsistent) == 0, device.hasRequest,
        helpOut(worker)
      {
        return true
      }
      quietTicks = now == last ? quietTicks + 1 : 0
      if quietTicks >= Self.quietTicks { rate.reset() }
      rate.add(now - last)
      hold?.update(.device, rate)
      last = now
    }
  }

  /// Sleeps until a request is taken, if none was taken since `taken` had the given value and a worker is there to take
  /// one. Otherwise, or if the previous watchdog still sleeps, waits for a tick. Returns `true` if this worker was
  /// woken.
  private func sleep(_ worker: Int, since last: UInt64) -> Bool {
    // A worker that takes a request reads what is published here, and the other way round.
    let isPublished =
      sleeper.compareExchange(expected: -1, desired: worker, ordering: .sequentiallyConsistent).exchanged
    guard isPublished, taken.load(ordering: .sequentiallyConsistent) == last,
      leaders.load(ordering: .sequentiallyConsistent) > 0
    else {
      if isPublished { withdraw(worker) }
      return semaphores[worker].wait(microseconds: ticks.watchdog)
    }
    semaphores[worker].wait()
    withdraw(worker)
    return true
  }

  func withdraw(_ worker: Int) {
    _ = sleeper.compareExchange(expected: worker, desired: -1, ordering: .sequentiallyConsistent)
  }

  private func wakeSleeper() {
    let worker = sleeper.exchange(-1, ordering: .sequentiallyConsistent)
    if worker >= 0 { (worker < semaphores.count ? semaphores[worker] : reserveSemaphore).post() }
  }

  /// Goes to the device and makes another idle worker the watchdog. Returns `false` if this worker was promoted
  /// meanwhile.
  private func helpOut(_ worker: Int) -> Bool {
    let (isDone, next, wakesReserve) = waiting.withLock { waiting -> (Bool, Int?, Bool) in
      guard waiting.watchdog == worker else { return (false, nil, false) }
      waiting.watchdog = waiting.idle.popLast()
      becomeLeader()
      return (true, waiting.watchdog, waiting.wakesReserve())
    }
    if let next { semaphores[next].post() }
    if wakesReserve { reserveSemaphore.post() }
    return isDone
  }

  /// Without a watchdog, the end of a burst would not be noticed.
  private func endBurstIfUnwatched() {
    if waiting.withLock({ $0.watchdog == nil }) { hold?.end(.device) }
  }
}

/// The intervals at which the watchdog and the reserve check the device, in microseconds.
package struct WatchTicks: Sendable {
  /// The watchdog's. A request waits at most twice as long to be taken while a worker is idle.
  package var watchdog: Int64 = 1000
  /// The reserve's, while no worker is idle.
  package var reserve: Int64 = 50_000

  package init() {}
}
