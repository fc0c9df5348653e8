import CFUSE
import ProtectfsIO
import Synchronization

// How many buffers of a queue wait for requests: its width. As a rule one is best. What comes while its thread serves
// is then given to it with the commit, oldest first: no other thread is woken, and the client is never found on a
// processor where another thread waits to run, from which Linux would move it.
extension RequestRings {
  /// A read up to this length mostly waits for the disk once, and nobody reads on meanwhile.
  private static let shortRead: UInt32 = 1 << 16
  /// More reads at a time fill memory and do not make a disk faster. If they wait for long, the queue is widened all
  /// the same.
  private static let mostReads = 3

  /// A thread takes a request of a queue, which is no nudge. Returns `false` if no thread is left for the next one.
  func leave(_ queue: RingQueue, _ answer: RingAnswer, by worker: Int) -> Bool {
    if queue.leave(by: worker) { keeper.watch() }
    if !queue.standsStill { return true }
    guard mayTakeLong(answer, on: queue) || !queue.takesNudges && !isStream(answer) else {
      keeper.watch()
      return true
    }
    if widen(queue) || grow(queue) { return true }
    keeper.alert()
    return false
  }

  /// Whether a request is one of those that write pages back or read ahead. More of them at a time do not make a
  /// processor or a disk faster.
  func isStream(_ answer: RingAnswer) -> Bool {
    answer.header?.opcode == FUSE_WRITE.rawValue || isLongTransfer(answer)
  }

  /// Whether a request transfers so much that it takes long even if nothing waits for the disk.
  func isLongTransfer(_ answer: RingAnswer) -> Bool {
    switch answer.header.map({ fuse_opcode(rawValue: $0.opcode) }) {
    case FUSE_READ: (answer.arguments(as: fuse_read_in.self)?.size ?? 0) > Self.shortRead
    case FUSE_WRITE: (answer.arguments(as: fuse_write_in.self)?.size ?? 0) > Self.shortRead
    default: false
    }
  }

  /// Whether the next request of the queue should not wait for one.
  private func mayTakeLong(_ answer: RingAnswer, on queue: RingQueue) -> Bool {
    guard let operation = answer.header.map({ fuse_opcode(rawValue: $0.opcode) }) else { return false }
    if operation == FUSE_READ { return queue.busy <= Self.mostReads && isStream(answer) }
    return operation.mayWaitForDisk
  }

  /// Waits before a request is served, if its client moves with each answer and is the only one. It must not be a long
  /// transfer, which is served on any processor.
  func waitIfClientMoves(_ answer: RingAnswer, on queue: RingQueue) {
    // What the kernel sends for nobody has no number.
    guard let number = answer.header?.pid, number != 0,
      clientMoves.noteRequest(
        of: number, on: queue.number, isAlone: { queues.reduce(0) { $0 + $1.busy } == 1 },
        now: { MonotonicClock.nanoseconds })
    else { return }
    Thread.sleep(microseconds: ClientMoves.delay)
  }

  /// So many buffers of a queue are in use that the keeper is to look whether they hang.
  func alertIfBusy(_ queue: RingQueue) {
    if queue.busy >= alertLevel { keeper.alert() }
  }

  /// Requests have queued up for a while.
  func relieve(_ queue: RingQueue) {
    if !widen(queue) { _ = grow(queue) }
  }

  /// Has another thread wait for requests of a queue, with a new buffer. Returns `false` if there is none.
  func grow(_ queue: RingQueue) -> Bool {
    guard let buffer = try? Self.makeBuffer(queue.number), let worker = spare() else { return false }
    queue.isNeeded.store(true, ordering: .relaxed)
    worker.join(queue, buffer, hasRequest: false)
    expectBacklog(of: queue)
    return true
  }

  /// Requests may wait in the kernel that no waiting buffer is given.
  func expectBacklog(of queue: RingQueue) {
    if !queue.mayHaveBacklog.load(ordering: .relaxed) { queue.mayHaveBacklog.store(true, ordering: .relaxed) }
    keeper.watch()
  }

  /// Has a thread that rests go on. It commits its buffer, and with that gets the oldest request of the queue. Returns
  /// `false` if none rests.
  func widen(_ queue: RingQueue) -> Bool {
    guard let worker = state.withLock({ $0.resting[queue.number].popLast() }) else { return false }
    queue.isNeeded.store(true, ordering: .relaxed)
    worker.wake()
    return true
  }

  /// Has all threads that rest go on.
  func widenAll() {
    for queue in queues { while widen(queue) {} }
  }

  /// The number of requests with much data that were served.
  var servedLongCount: UInt64 { workers.reduce(0) { $0 &+ $1.answer.servedLongCount } }

  /// Whether threads rest.
  var someRest: Bool { state.withLock { state in state.resting.contains { !$0.isEmpty } } }

  /// Returns whether a thread is to keep its buffer, with a nudge in it, until it is woken. Nothing waits for the
  /// answer to that. It must not be the last worker of the queue that waits.
  func rest(_ worker: RingWorker, on queue: RingQueue, _ header: fuse_in_header) -> Bool {
    guard Self.asksForRest(header) else { return false }
    let rests = state.withLock { state in
      if state.isOver || !state.deferred.isEmpty { return false }
      state.resting[queue.number].append(worker)
      return true
    }
    // It may have become quiet before this thread got to run, and the keeper be about to sleep for ever.
    if rests { keeper.watch() }
    return rests
  }
}
