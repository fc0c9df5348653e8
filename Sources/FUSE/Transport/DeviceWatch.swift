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
  /// The interval of the watchdog's checks, in microseconds. A request waits at most twice as long to be taken.
  private static let tick: Int64 = 1000
  /// The number of ticks without a request after which the watchdog sleeps until there is one.
  static let quietTicks = 4
  /// If the workers take fewer requests than this in a tick while more are waiting, they wait for a disk and not for a
  /// processor, so more workers help.
  private static let brisk: UInt64 = 32
  /// From this number of requests in a tick on, callers and workers spend most of their time waiting for each other to
  /// wake.
  private static let burst: UInt64 = 4

  struct Waiting {
    var standby: Int?
    /// The other idle workers.
    var spare: [Int] = []
    /// For each worker, whether it was promoted. A worker is woken for this.
    var isCalled: [Bool]
    /// The reserve sleeps until no worker is idle.
    var isReserveAsleep = false

    var isEmpty: Bool { standby == nil && spare.isEmpty }

    /// Whether the reserve must be woken, because no idle worker is left.
    mutating func wakesReserve() -> Bool {
      guard isReserveAsleep, isEmpty else { return false }
      isReserveAsleep = false
      return true
    }
  }

  let waiting: Mutex<Waiting>
  let device: RequestDevice
  let seats: [Semaphore]
  private let processors = Process.processorCount
  /// The number of workers at the device or on their way there.
  let present = Atomic<Int>(0)
  /// The number of requests taken.
  let taken = Atomic<UInt64>(0)
  /// The semaphore that the reserve sleeps on. As a sleeper, its number follows those of the workers.
  let reserveSeat = Semaphore()
  let hasEnded = Atomic(false)
  /// The worker that sleeps as the watchdog, or -1.
  let sleeper = Atomic<Int>(-1)
  private let latency: WakeupLatency?
  private let holdsLatency = Mutex(false)

  /// `latency`, if given, is held during bursts of requests.
  init(_ device: RequestDevice, workers: Int, latency: WakeupLatency?) {
    self.device = device
    self.latency = latency
    waiting = Mutex(Waiting(isCalled: Array(repeating: false, count: workers)))
    seats = (0..<workers).map { _ in Semaphore() }
  }

  // MARK: At the device

  /// Enters the set of workers at the device.
  func arrive() {
    present.wrappingAdd(1, ordering: .sequentiallyConsistent)
  }

  /// Leaves the device with a request to serve, and promotes another worker if the request may take long or requests
  /// queue up.
  func leave(mayTakeLong: Bool, hasQueue: Bool) {
    taken.wrappingAdd(1, ordering: .sequentiallyConsistent)
    let others = present.wrappingSubtract(1, ordering: .sequentiallyConsistent).newValue
    if mayTakeLong && others == 0 {
      call()
    } else if hasQueue {
      call(upTo: processors)
    }
    if sleeper.load(ordering: .sequentiallyConsistent) >= 0 { wakeSleeper() }
  }

  /// Promotes an idle worker if none is at the device.
  func callIfAbandoned() {
    if present.load(ordering: .sequentiallyConsistent) == 0 { call() }
  }

  /// Whether no other worker is at the device.
  var isAlone: Bool { present.load(ordering: .sequentiallyConsistent) <= 1 }

  /// Leaves the device for good, and makes sure that another worker is there.
  func end() {
    present.wrappingSubtract(1, ordering: .sequentiallyConsistent)
    hasEnded.store(true, ordering: .sequentiallyConsistent)
    reserveSeat.post()
    call()
  }

  /// Becomes idle if another worker is at the device. Returns when this worker is promoted.
  func retire(_ worker: Int) {
    var others = present.load(ordering: .sequentiallyConsistent) - 1
    while others > 0 {
      let (isDone, now) = present.compareExchange(
        expected: others + 1, desired: others, ordering: .sequentiallyConsistent)
      if isDone { return wait(worker) }
      others = now - 1
    }
  }

  // MARK: Idle workers

  /// Promotes an idle worker, if there is one and fewer than `limit` workers are active.
  private func call(upTo limit: Int = .max) {
    let (called, wakesReserve) = waiting.withLock { waiting -> (Int?, Bool) in
      let waitingCount = waiting.spare.count + (waiting.standby == nil ? 0 : 1)
      guard seats.count - waitingCount < limit else { return (nil, false) }
      guard let worker = waiting.spare.popLast() ?? waiting.standby.take() else { return (nil, waiting.wakesReserve()) }
      waiting.isCalled[worker] = true
      present.wrappingAdd(1, ordering: .sequentiallyConsistent)
      return (worker, waiting.wakesReserve())
    }
    if let called { seats[called].post() }
    if wakesReserve { reserveSeat.post() }
  }

  private func wait(_ worker: Int) {
    let waits = waiting.withLock { waiting in
      // The others may have left the device and found no idle worker.
      if present.load(ordering: .sequentiallyConsistent) == 0 {
        arrive()
        return false
      }
      if waiting.standby == nil { waiting.standby = worker } else { waiting.spare.append(worker) }
      return true
    }
    guard waits else { return }
    while true {
      switch role(of: worker) {
      case .called: return withdrawLatencyIfUnwatched()
      case .spare: seats[worker].wait()
      case .standby: if standBy(worker) { return withdrawLatencyIfUnwatched() }
      }
    }
  }

  private enum Role {
    case called, spare, standby
  }

  private func role(of worker: Int) -> Role {
    waiting.withLock { waiting in
      if waiting.standby == worker { return .standby }
      if !waiting.isCalled[worker] { return .spare }
      waiting.isCalled[worker] = false
      return .called
    }
  }

  // MARK: The watchdog

  /// Watches the device. Returns `true` when the watchdog goes there itself, `false` when it was woken.
  private func standBy(_ worker: Int) -> Bool {
    var last = taken.load(ordering: .sequentiallyConsistent)
    var quietTicks = 0
    var recent: UInt64 = 0
    while true {
      let isQuiet = quietTicks >= Self.quietTicks && present.load(ordering: .sequentiallyConsistent) > 0
      let isWoken = isQuiet ? sleep(worker, since: last) : seats[worker].wait(microseconds: Self.tick)
      if isWoken { return false }
      let now = taken.load(ordering: .sequentiallyConsistent)
      if now - last < Self.brisk, present.load(ordering: .sequentiallyConsistent) == 0, device.hasRequest,
        helpOut(worker)
      {
        return true
      }
      quietTicks = now == last ? quietTicks + 1 : 0
      recent = quietTicks < Self.quietTicks ? recent - recent / 4 + now - last : 0
      if recent >= 4 * Self.burst { holdLatency(true) } else if recent < Self.burst { holdLatency(false) }
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
      present.load(ordering: .sequentiallyConsistent) > 0
    else {
      if isPublished { withdraw(worker) }
      return seats[worker].wait(microseconds: Self.tick)
    }
    seats[worker].wait()
    withdraw(worker)
    return true
  }

  func withdraw(_ worker: Int) {
    _ = sleeper.compareExchange(expected: worker, desired: -1, ordering: .sequentiallyConsistent)
  }

  private func wakeSleeper() {
    let worker = sleeper.exchange(-1, ordering: .sequentiallyConsistent)
    if worker >= 0 { (worker < seats.count ? seats[worker] : reserveSeat).post() }
  }

  /// Goes to the device and makes another idle worker the watchdog. Returns `false` if this worker was promoted
  /// meanwhile.
  private func helpOut(_ worker: Int) -> Bool {
    let (isDone, next, wakesReserve) = waiting.withLock { waiting -> (Bool, Int?, Bool) in
      guard waiting.standby == worker else { return (false, nil, false) }
      waiting.standby = waiting.spare.popLast()
      arrive()
      return (true, waiting.standby, waiting.wakesReserve())
    }
    if let next { seats[next].post() }
    if wakesReserve { reserveSeat.post() }
    return isDone
  }

  /// Without a watchdog, the end of a burst would not be noticed.
  private func withdrawLatencyIfUnwatched() {
    if waiting.withLock({ $0.standby == nil }) { holdLatency(false) }
  }

  private func holdLatency(_ isHeld: Bool) {
    guard let latency else { return }
    holdsLatency.withLock {
      if $0 != isHeld { latency.hold(isHeld) }
      $0 = isHeld
    }
  }
}
