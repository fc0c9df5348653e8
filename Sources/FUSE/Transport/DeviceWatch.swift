import ProtectfsIO
import Synchronization

/// Which workers are at the kernel's device to take requests, and which wait until they are called there.
///
/// To wake a thread costs more than to serve most requests. So as a rule one worker is at the device and serves what it takes
/// itself: it is back before the next request, and nobody was woken. It calls another one to the device before it serves
/// what may take long, and when requests queue up. Who finds nothing to do while others are there goes to wait. Should a
/// request be served slowly that was thought quick, the *standby*, a waiting worker that looks once in a tick whether
/// anyone is at the device, goes there.
final class DeviceWatch: Sendable {
  /// How often the standby looks, in microseconds. Twice that is the longest that a request waits to be taken.
  private static let tick: Int64 = 1000
  /// After so many ticks without a request the standby sleeps until there is one.
  static let quietTicks = 4
  /// Who serves fewer requests in a tick, while more wait, waits for a disk, and not for a processor: then more workers help.
  private static let brisk: UInt64 = 32
  /// From so many requests in a tick on, who asks and who answers wait for each other's waking most of the time.
  private static let burst: UInt64 = 4

  struct Waiting {
    var standby: Int?
    /// Those beside it.
    var spare: [Int] = []
    /// What a worker is woken for.
    var isCalled: [Bool]
    /// The reserve sleeps until nobody waits here.
    var isReserveAsleep = false

    var isEmpty: Bool { standby == nil && spare.isEmpty }

    /// Whether the reserve is to be woken, as nobody is left to be called.
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
  /// How many workers are at the device, or on their way there.
  let present = Atomic<Int>(0)
  /// How many requests have been taken.
  let taken = Atomic<UInt64>(0)
  /// What the reserve sleeps at; as a sleeper it has the number behind the workers'.
  let reserveSeat = Semaphore()
  let hasEnded = Atomic(false)
  /// The worker that sleeps as the standby, or -1.
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

  /// Comes to the device.
  func arrive() {
    present.wrappingAdd(1, ordering: .sequentiallyConsistent)
  }

  /// Leaves the device with a request to serve.
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

  /// Calls another worker if nobody is at the device.
  func callIfAbandoned() {
    if present.load(ordering: .sequentiallyConsistent) == 0 { call() }
  }

  /// Whether no other worker is at the device.
  var isAlone: Bool { present.load(ordering: .sequentiallyConsistent) <= 1 }

  /// Leaves the device for good, and sees to it that someone is there.
  func end() {
    present.wrappingSubtract(1, ordering: .sequentiallyConsistent)
    hasEnded.store(true, ordering: .sequentiallyConsistent)
    reserveSeat.post()
    call()
  }

  /// Goes to wait if another worker is at the device; returns when called there again.
  func retire(_ worker: Int) {
    var others = present.load(ordering: .sequentiallyConsistent) - 1
    while others > 0 {
      let (isDone, now) = present.compareExchange(
        expected: others + 1, desired: others, ordering: .sequentiallyConsistent)
      if isDone { return wait(worker) }
      others = now - 1
    }
  }

  // MARK: Waiting

  /// Wakes a worker that waits, if there is one and fewer than `limit` do not, to come to the device.
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
      // The others may have left, and found nobody to call.
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

  // MARK: The standby

  /// Looks after the device. Returns true when it goes there itself, false when something woke it.
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

  /// Sleeps until a request is taken, if none has been since `taken` was as given and someone is there to take it;
  /// otherwise, and if another worker sleeps as the standby that was, for a tick. True if something woke it.
  private func sleep(_ worker: Int, since last: UInt64) -> Bool {
    // What is published here is looked at by who takes a request, and the other way round.
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

  /// Goes to the device, and makes a spare worker the standby. False if it has been called meanwhile.
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

  /// Where there is no standby left, nobody would notice the end of a burst.
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
