import CFUSE
import Glibc
import ProtectfsIO
import Synchronization
import SystemPackage

/// The thread of the rings that never uses the store, nor takes a lock that is held by a thread that uses the store.
///
/// It sleeps as long as workers are free. It commits the answers that others have left to it; the buffers of these are
/// its own then, and a request that comes into one goes to a free worker, or is deferred. When as many requests as there
/// would be workers at the device hang for long, it refuses what a lock refuses of files that the kernel knows, as the
/// ``Reserve`` does.
@safe final class RingKeeper: @unchecked Sendable {
  /// The number of checks in a row that must find the same requests unanswered, before the store counts as stuck.
  private static let patience = 2
  /// The number of buffers that its ring has room for at a time; more are no error.
  private static let room = 256

  private let ring: CommandRing
  private let signal: EventDescriptor
  private let threads: Int
  private let isAlert = Atomic(false)
  private let isOver = Atomic(false)
  /// Its buffers that wait for requests, by the tags of their commands.
  private var buffers: [UInt64: RequestBuffer] = [:]
  private var nextTag: UInt64 = 0
  /// Buffers with nudges that are not answered while requests are deferred: the next nudge is then another thread's.
  private var heldNudges: [RequestBuffer] = []
  /// For each worker the request that it served at the last check, and for how many checks before that.
  private var last: [(unique: UInt64, checks: Int)] = []
  private var quietChecks = 0

  init(device: CInt, threads: Int) throws(Errno) {
    ring = try CommandRing(buffers: Self.room, device: device)
    signal = try EventDescriptor()
    self.threads = threads
  }

  /// Makes the ring the calling thread's. Returns whether that was possible.
  func enable() -> Bool { (try? ring.enable()) != nil }

  /// Has the thread look at what was left to it.
  func wake() { signal.raise() }

  /// Has the thread look for a while whether requests hang.
  func alert() {
    if !isAlert.load(ordering: .relaxed), !isAlert.exchange(true, ordering: .sequentiallyConsistent) { wake() }
  }

  func end() {
    isOver.store(true, ordering: .sequentiallyConsistent)
    wake()
  }

  func run(_ rings: RequestRings, _ session: Session) {
    last = rings.workers.map { _ in (0, 0) }
    let tick = CInt(session.ticks.reserve / 1000)
    var nextCheck = MonotonicClock.nanoseconds
    while !isOver.load(ordering: .sequentiallyConsistent) {
      var events = (
        pollfd(fd: ring.descriptor, events: Int16(POLLIN), revents: 0),
        pollfd(fd: signal.rawValue, events: Int16(POLLIN), revents: 0)
      )
      let timeout = isAlert.load(ordering: .relaxed) ? tick : -1
      unsafe withUnsafeMutableBytes(of: &events) { bytes in
        _ = unsafe poll(bytes.bindMemory(to: pollfd.self).baseAddress, 2, timeout)
      }
      signal.clear()
      for answered in rings.takeAnswered() { commit(answered, rings) }
      gather(rings)
      let now = MonotonicClock.nanoseconds
      guard isAlert.load(ordering: .relaxed), now >= nextCheck else { continue }
      nextCheck = now + session.ticks.reserve * 1000
      check(rings, session)
    }
  }

  // MARK: Its buffers

  private func add(_ command: CommandRing.Command, _ buffer: RequestBuffer, _ rings: RequestRings) -> UInt64 {
    nextTag += 1
    buffers[nextTag] = buffer
    ring.add(command, buffer, commit: command == .register ? 0 : RingAnswer.commitID(in: buffer), tag: nextTag)
    return nextTag
  }

  private func commit(_ answered: AnsweredBuffer, _ rings: RequestRings) {
    rings.queues[answered.buffer.queue].enter()
    let tag = add(.commitAndFetch, answered.buffer, rings)
    // Nothing is written into the buffer later than in this call, until the thread asks for completions.
    try? ring.enter(awaiting: 0, gathers: false)
    let arrived = takeCompletions()
    if answered.secrets > 0 {
      let isForNext = arrived.contains { $0 == (tag, 0) }
      RingAnswer.wipe(answered.buffer, extent: answered.secrets, isForNext: isForNext)
    }
    for (tag, result) in arrived { accept(tag, result, rings) }
  }

  private func takeCompletions() -> [(UInt64, CInt)] {
    var completions: [(UInt64, CInt)] = []
    while let completion = ring.take() { completions.append((completion.tag, completion.result)) }
    return completions
  }

  private func gather(_ rings: RequestRings) {
    if buffers.isEmpty { return }
    try? ring.enter(awaiting: 0)
    for (tag, result) in takeCompletions() { accept(tag, result, rings) }
  }

  private func accept(_ tag: UInt64, _ result: CInt, _ rings: RequestRings) {
    guard let buffer = buffers.removeValue(forKey: tag) else { return }
    guard result == 0 else {
      // -EAGAIN, -EINTR: once more. Otherwise the connection has ended.
      if result == -EAGAIN || result == -EINTR { _ = add(.commitAndFetch, buffer, rings) }
      return
    }
    let queue = rings.queues[buffer.queue]
    let isLast = queue.leave() <= 0
    if rings.isNudge(RingAnswer.header(in: buffer)) {
      heldNudges.append(buffer)
      if rings.deferredCount.load(ordering: .relaxed) == 0 { answerNudges(rings) } else { nudge(queue, rings) }
    } else if let worker = rings.spare() {
      worker.join(queue, buffer, .holdsRequest)
    } else {
      rings.deferRequest(in: buffer)
    }
    if isLast { addBuffer(to: queue, rings) }
  }

  /// Waits for requests of a queue that has no other buffer left to wait with.
  private func addBuffer(to queue: RingQueue, _ rings: RequestRings) {
    guard let buffer = try? RequestRings.makeBuffer(queue.number) else { return }
    queue.add()
    _ = add(.register, buffer, rings)
    nudge(queue, rings)
  }

  private func answerNudges(_ rings: RequestRings) {
    for buffer in heldNudges {
      RingAnswer.refuse(EAGAIN, to: RingAnswer.commitID(in: buffer), in: buffer)
      rings.queues[buffer.queue].enter()
      _ = add(.commitAndFetch, buffer, rings)
    }
    heldNudges = []
  }

  private func nudge(_ queue: RingQueue, _ rings: RequestRings) {
    CommandRing.bindThread(to: queue.number)
    rings.nudge(queue)
    CommandRing.unbindThread()
  }

  // MARK: Requests that hang

  private func check(_ rings: RequestRings, _ session: Session) {
    var busy = 0
    var hanging: [RingWorker] = []
    for (index, worker) in rings.workers.enumerated() {
      let unique = worker.answer.currentUnique
      let isSame = unique != 0 && unique == last[index].unique
      last[index] = (unique, isSame ? last[index].checks + 1 : 0)
      if unique != 0 { busy += 1 }
      if last[index].checks >= Self.patience { hanging.append(worker) }
    }
    let isStuck = hanging.count >= threads
    rings.isStuck.store(isStuck, ordering: .relaxed)
    if isStuck { session.refuseWithoutStore(hanging, rings.deferred) }
    if rings.deferredCount.load(ordering: .relaxed) > 0 {
      for queue in rings.queues { nudge(queue, rings) }
    } else {
      answerNudges(rings)
    }
    quietChecks = busy == 0 ? quietChecks + 1 : 0
    guard quietChecks >= DeviceWatch.quietTicks else { return }
    quietChecks = 0
    isAlert.store(false, ordering: .sequentiallyConsistent)
    // Who took a request in the meantime may have found it set.
    if rings.workers.contains(where: { $0.answer.currentUnique != 0 }) { alert() }
  }
}
