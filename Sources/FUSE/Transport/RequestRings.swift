import Glibc
import ProtectfsIO
import Synchronization
import SystemPackage

/// The second transport: the kernel hands each request to a thread on the caller's own processor, through a queue for
/// each processor (FUSE over io_uring, since Linux 6.14).
///
/// A queue never stands still: when its last thread takes a request, another thread joins it, so that one always waits.
/// Rings cannot be made once the daemon is confined, so they are made before, and their number limits the threads. When
/// all of them serve, the last of a queue defers what comes (``RingKeeper``). Requests that are forgotten or
/// interrupted still come through `/dev/fuse`, and so does everything if the kernel does not accept the rings.
final class RequestRings: Sendable {
  /// More processors would take too much memory and too many threads.
  static let mostProcessors = 32
  /// Threads beyond one for each processor, for each thread that the device would have.
  private static let sparesForThread = 16

  struct State {
    /// Workers whose threads have not been started.
    var fresh: [Int]
    /// Workers whose threads wait for a queue.
    var parked: [Int] = []
    /// For each queue the workers that keep their buffers from it.
    var resting: [[RingWorker]]
    var threads: [Thread] = []
    var deferred: [DeferredRingRequest] = []
    var deferredBytes = 0
    var answered: [AnsweredBuffer] = []
    /// Threads that make requests for ``nudge(_:)``.
    var nudgers: Set<Int32> = []
    var isOver = false
  }

  let mountPoint: String
  /// The device number of what is mounted there, as `MAJOR:MINOR`.
  let fileSystem: String
  /// The regular files that the kernel knows.
  let files: SharedNumbers
  let queues: [RingQueue]
  let workers: [RingWorker]
  let keeper: RingKeeper
  /// Buffers for the first thread of each queue: those must not fail when the kernel waits for them.
  private let first: [RequestBuffer]
  let state: RankedMutex<State>
  private let hasBegun = Atomic(false)
  /// The number of deferred requests, which is rarely not 0.
  let deferredCount = Atomic<Int>(0)
  /// So many requests have hung for so long that the store is taken not to respond.
  let isStuck = Atomic(false)
  /// Which clients are moved from processor to processor.
  let clientMoves = ClientMoves()
  /// When so many entries of a queue are in use, the keeper looks whether they hang.
  let alertLevel: Int
  let device: CInt
  /// Makes the number of the next nudge. The kernel's own numbers are much lower.
  let nextNudge = Atomic<UInt64>(0)

  /// Makes the rings. The device would have `threads` workers.
  ///
  /// - Throws: what the system calls fail with; `ENOTSUP` if there are too many processors.
  init(
    device: CInt, mountPoint: String, files: SharedNumbers, threads: Int,
    processors: Int? = Process.possibleProcessorCount
  ) throws(Errno) {
    guard let count = processors, count <= Self.mostProcessors, let fileSystem = Process.device(of: mountPoint)
    else { throw .notSupported }
    self.device = device
    self.mountPoint = mountPoint
    self.fileSystem = fileSystem
    self.files = files
    queues = (0..<count).map { RingQueue(number: $0) }
    let spares = min(threads * Self.sparesForThread, Int(Process.openFileLimit / 8))
    var workers: [RingWorker] = []
    var first: [RequestBuffer] = []
    for number in 0..<count + spares { workers.append(try RingWorker(number, device: device)) }
    for number in 0..<count { first.append(try Self.makeBuffer(number)) }
    self.workers = workers
    self.first = first
    keeper = try RingKeeper(device: device, threads: threads)
    alertLevel = max(1, threads / count)
    state = RankedMutex(
      .requestRings,
      State(
        fresh: Array((count..<count + spares).reversed()), resting: Array(repeating: [], count: count)))
  }

  /// Whether the module of the kernel has it turned on; `nil` if the kernel does not have it.
  static var isOffered: Bool? {
    let parameter = try? Descriptor.open("/sys/module/fuse/parameters/enable_uring", [.readOnly]).readAll(limit: 8)
    return parameter.map { $0.first == UInt8(ascii: "Y") }
  }

  /// How many threads there are at first: one for each processor, the keeper, and the one that reads ahead.
  static var firstThreadCount: Int {
    guard let count = Process.possibleProcessorCount, count <= mostProcessors else { return 0 }
    return count + 2
  }

  static func makeBuffer(_ queue: Int) throws(Errno) -> RequestBuffer {
    try RequestBuffer(queue: queue, dataSize: Session.maximumTransfer + 2 * Worker.slack)
  }

  // MARK: The first threads

  /// Starts the threads of each queue, and the keeper: when the process is confined, so that they are, too. `make`
  /// makes what serves a thread's requests. Returns whether all threads have their rings; if not, the rings cannot be
  /// used.
  func start(_ session: Session, _ hold: BurstHold?, _ make: (RingWorker) -> Worker) -> Bool {
    for worker in workers { worker.worker = make(worker) }
    return startThread(
      "ring keeper", isFirst: true, { [keeper] in keeper.enable() }, { [self] in keeper.run(self, session, hold) })
      && queues.allSatisfy { startThread(workers[$0.number], isFirst: true) }
  }

  /// Gives the kernel the buffers: it has accepted the rings, and passes no request on until it has all of them.
  func begin() {
    hasBegun.store(true, ordering: .relaxed)
    for queue in queues { workers[queue.number].join(queue, first[queue.number], hasRequest: false) }
  }

  /// Starts the thread of a worker. Returns whether it runs and has its ring.
  private func startThread(_ worker: RingWorker, isFirst: Bool = false) -> Bool {
    startThread("ring", isFirst: isFirst, { worker.enable() }, { [self] in worker.run(self) })
  }

  private func startThread(
    _ name: String, isFirst: Bool, _ enable: @escaping @Sendable () -> Bool, _ run: @escaping @Sendable () -> Void
  ) -> Bool {
    let start = ThreadStart()
    let body = { @Sendable in
      let isEnabled = enable()
      start.isEnabled.store(isEnabled, ordering: .relaxed)
      start.isDone.post()
      if isEnabled { run() }
    }
    do throws(Errno) {
      // The first are in reserve.
      let thread =
        isFirst
        ? Thread(name: name, stackSize: 1 << 20, body) : try Thread(starting: name, stackSize: 1 << 20, body)
      state.withLock { $0.threads.append(thread) }
    } catch {
      return false
    }
    start.isDone.wait()
    return start.isEnabled.load(ordering: .relaxed)
  }

  // MARK: More threads

  /// A worker without a queue, whose thread waits for one.
  func spare() -> RingWorker? {
    let (number, isStarted) = state.withLock { state -> (Int?, Bool) in
      if state.isOver { return (nil, false) }
      if let number = state.parked.popLast() { return (number, true) }
      return (state.fresh.popLast(), false)
    }
    guard let number else { return nil }
    if isStarted || startThread(workers[number]) { return workers[number] }
    // There may be too many threads now, and fewer later.
    state.withLock { $0.fresh.append(number) }
    return nil
  }

  /// A thread has no buffer any more. Returns `false` when it is to end.
  func park(_ worker: RingWorker) -> Bool {
    state.withLock { state in
      if !state.isOver { state.parked.append(worker.number) }
      return !state.isOver
    }
  }

  /// Waits for all threads. The connection must have ended, or the rings must not have been used.
  func end() {
    let waiting = state.withLock { state in
      state.isOver = true
      defer { state.parked = [] }
      return state.parked
    }
    for number in waiting { workers[number].end() }
    widenAll()
    if !hasBegun.load(ordering: .relaxed) { for queue in queues { workers[queue.number].end() } }
    keeper.end()
    while let thread = state.withLock({ $0.threads.popLast() }) { thread.join() }
  }

  // MARK: Answers by other threads

  /// Takes an answer from libfuse by a thread that is no worker. Returns its length, or `nil` if it is not to a request
  /// that came through a ring.
  func take(_ parts: UnsafePointer<iovec>, count: Int) -> Int? {
    for worker in workers {
      if let size = unsafe worker.answer.takeFromOther(parts, count: count) { return size }
    }
    return nil
  }

  /// Answers a request with an error in place of its worker, which hangs. It must have been claimed. The buffer's
  /// address goes to the keeper, its memory stays with the worker.
  func refuse(_ error: CInt, _ unique: UInt64, of worker: RingWorker) {
    if let buffer = worker.answer.buffer, let other = try? buffer.replaced() {
      RingAnswer.refuse(error, to: unique, in: other)
      worker.answer.isTakenOver = true
      handOver(AnsweredBuffer(buffer: other))
    }
    worker.answer.byOther.post()
  }
}

/// How a thread reports that it has its ring.
private final class ThreadStart: Sendable {
  let isEnabled = Atomic(false)
  let isDone = Semaphore()
}

extension DispatchTarget {
  /// Sends what libfuse has put together: through the ring that a request came through, else to the device.
  func send(_ parts: UnsafeMutablePointer<iovec>, count: Int, to device: CInt) -> Int {
    if let worker = Worker.ofThread {
      if let answer = worker.ringAnswer, let size = unsafe answer.take(parts, count: count) { return size }
    } else if let rings, let size = unsafe rings.take(parts, count: count) {
      return size
    }
    return unsafe negotiation.amendingReply(parts, count: count) {
      unsafe Glibc.writev(device, parts, CInt(count))
    } begin: {
      counts.usesRings.store(true, ordering: .relaxed)
      rings?.begin()
    }
  }
}
