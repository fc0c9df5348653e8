import CFUSE
import Glibc
import ProtectfsIO
import Synchronization
import SystemPackage

/// The second transport: the kernel hands each request to a thread on the caller's own processor, through a queue for
/// each processor (FUSE over io_uring, since Linux 6.14).
///
/// A queue never stands still: when its last thread takes a request, another thread joins it, so that one always waits.
/// Rings cannot be made once the daemon is confined, so they are made before, and their number limits the threads.
/// Requests that are forgotten or interrupted still come through `/dev/fuse`, and so does everything if the kernel does
/// not accept the rings.
final class RequestRings: Sendable {
  /// More processors would take too much memory and too many threads.
  static let mostProcessors = 32
  /// Threads beyond one for each processor.
  private static let spares = 128

  private struct State {
    /// Workers whose threads have not been started.
    var fresh: [Int]
    /// Workers whose threads wait for a queue.
    var parked: [Int] = []
    var threads: [Thread] = []
    /// Threads that make requests for ``nudge(_:)``.
    var nudgers: Set<Int32> = []
    var isOver = false
  }

  private let mountPoint: String
  private let queues: [RingQueue]
  let workers: [RingWorker]
  /// Buffers for the first thread of each queue: those must not fail when the kernel waits for them.
  private let first: [RequestBuffer]
  private let state: RankedMutex<State>
  private let hasBegun = Atomic(false)
  let anchors: ClientAnchors

  /// Makes the rings.
  ///
  /// - Throws: what the system calls fail with; `ENOTSUP` if the kernel does not offer rings, or there are too many
  ///   processors.
  init(device: CInt, mountPoint: String) throws(Errno) {
    guard let count = Process.possibleProcessorCount, count <= Self.mostProcessors else { throw .notSupported }
    self.mountPoint = mountPoint
    queues = (0..<count).map { RingQueue(number: $0) }
    let spares = min(Self.spares, Int(Process.openFileLimit / 8))
    var workers: [RingWorker] = []
    var first: [RequestBuffer] = []
    for _ in 0..<count + spares { workers.append(try RingWorker(device: device)) }
    for number in 0..<count { first.append(try Self.makeBuffer(number)) }
    self.workers = workers
    self.first = first
    anchors = try ClientAnchors(processors: count)
    state = RankedMutex(.requestRings, State(fresh: Array((count..<count + spares).reversed())))
  }

  /// Whether the module of the kernel has it turned on.
  static var isOffered: Bool {
    let parameter = try? Descriptor.open("/sys/module/fuse/parameters/enable_uring", [.readOnly]).readAll(limit: 8)
    return parameter?.first == UInt8(ascii: "Y")
  }

  private static func makeBuffer(_ queue: Int) throws(Errno) -> RequestBuffer {
    try RequestBuffer(queue: queue, dataSize: Session.maximumTransfer + 2 * Worker.slack)
  }

  // MARK: The first threads

  /// Starts a thread for each queue. `make` makes what serves a thread's requests. Returns whether all threads have
  /// their rings; if not, the rings cannot be used.
  func start(_ make: (RingWorker) -> Worker) -> Bool {
    for worker in workers { worker.worker = make(worker) }
    return queues.allSatisfy { startThread(workers[$0.number]) }
  }

  /// Gives the kernel the buffers: it has accepted the rings, and passes no request on until it has all of them.
  func begin() {
    hasBegun.store(true, ordering: .relaxed)
    for queue in queues {
      queue.enter()
      workers[queue.number].join(queue, first[queue.number])
    }
  }

  /// Starts the thread of a worker. Returns whether it runs and has its ring.
  private func startThread(_ worker: RingWorker) -> Bool {
    let start = ThreadStart()
    do throws(Errno) {
      let thread = try Thread(starting: "ring", stackSize: 1 << 20) { [self] in
        let isEnabled = worker.enable()
        start.isEnabled.store(isEnabled, ordering: .relaxed)
        start.isDone.post()
        if isEnabled { worker.run(self) }
      }
      state.withLock { $0.threads.append(thread) }
    } catch {
      return false
    }
    start.isDone.wait()
    return start.isEnabled.load(ordering: .relaxed)
  }

  // MARK: More threads

  /// A worker without a queue, whose thread waits for one.
  private func spare() -> RingWorker? {
    let (number, isStarted) = state.withLock { state -> (Int?, Bool) in
      if state.isOver { return (nil, false) }
      if let number = state.parked.popLast() { return (number, true) }
      return (state.fresh.popLast(), false)
    }
    guard let number else { return nil }
    if isStarted || startThread(workers[number]) { return workers[number] }
    return nil
  }

  /// Has another thread wait for requests of a queue, if there is one.
  func grow(_ queue: RingQueue) {
    guard let buffer = try? Self.makeBuffer(queue.number), let worker = spare() else { return }
    queue.enter()
    worker.join(queue, buffer, hasBacklog: true)
  }

  /// Makes a request on the processor of a queue, which is answered at once. With that the queue goes on with its
  /// oldest request, which the kernel gives to no new buffer, only to one that is committed.
  func nudge(_ queue: RingQueue) {
    // The thread hangs if other requests are before its own and hang; so each is another one.
    let thread = try? Thread(starting: "nudge") { [self] in
      CommandRing.bindThread(to: queue.number)
      let number = Thread.number
      state.withLock { _ = $0.nudgers.insert(number) }
      var status = statvfs()
      _ = unsafe statvfs(mountPoint, &status)
      state.withLock { _ = $0.nudgers.remove(number) }
    }
    thread?.detach()
  }

  /// Whether a request is such a one.
  func isNudge(_ header: fuse_in_header) -> Bool {
    header.opcode == FUSE_STATFS.rawValue && state.withLock { $0.nudgers.contains(Int32(bitPattern: header.pid)) }
  }

  /// A thread has lost its buffer to another. Returns `false` when it is to end.
  func park(_ worker: RingWorker) -> Bool {
    guard let number = workers.firstIndex(where: { $0 === worker }) else { return false }
    return state.withLock { state in
      if !state.isOver { state.parked.append(number) }
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
    if !hasBegun.load(ordering: .relaxed) { for queue in queues { workers[queue.number].end() } }
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
  /// address goes to another thread, its memory stays with the worker.
  func refuse(_ error: CInt, _ unique: UInt64, of worker: RingWorker) {
    if let buffer = worker.answer.buffer, let successor = spare() {
      if let other = try? buffer.replaced() {
        RingAnswer.refuse(error, to: unique, in: other)
        worker.answer.isTakenOver = true
        queues[buffer.queue].enter()
        successor.join(queues[buffer.queue], other, hasAnswer: true)
      } else if !park(successor) {
        successor.end()
      }
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
    let usesRings = unsafe negotiation.amendReply(parts, count: count)
    let result = unsafe Glibc.writev(device, parts, CInt(count))
    if usesRings, result > 0, let rings {
      counts.usesRings.store(true, ordering: .relaxed)
      rings.begin()
    }
    return result
  }
}
