import CFUSE
import Glibc
import ProtectfsIO
import Synchronization
import SystemPackage

/// The thread of the rings that never uses the store, nor takes a lock that is held by a thread that uses the store.
///
/// It sleeps as long as workers are free. It commits the answers that others have left to it; the buffers of these are
/// its own then, and a request that comes into one goes to a free worker, or is deferred. When as many requests as
/// there would be workers at the device hang for long, it refuses what a lock refuses of files that the kernel knows,
/// as the ``Reserve`` does.
@safe final class RingKeeper: @unchecked Sendable {
  /// The number of checks in a row that must find the same requests unanswered, before the store counts as stuck.
  private static let patience = 2
  /// For how long threads rest, in milliseconds. The kernel counts what they keep as waiting requests, and may have
  /// been told to end a connection for one that waits too long (`fs.fuse.default_request_timeout`, in seconds).
  private static let longestRest: CInt = 1000
  /// The number of buffers that its ring has room for at a time; more are no error.
  private static let room = 256

  private struct Waiting {
    let buffer: RequestBuffer
    let command: CommandRing.Command
  }

  private let ring: CommandRing
  /// Raised for what was left to it, and for what has come into its buffers.
  private let signal: EventDescriptor
  private let threads: Int
  private let isAlert = Atomic(false)
  /// A queue may stand still for a moment.
  private let isWatching = Atomic(false)
  private let isOver = Atomic(false)
  /// Its buffers that wait for requests, by the tags of their commands.
  private var buffers: [UInt64: Waiting] = [:]
  /// Buffers that the kernel has refused; they are not used again.
  private var lost: [RequestBuffer] = []
  private var nextTag: UInt64 = 0
  /// Buffers with nudges that are not answered while requests are deferred: the next nudge is then another thread's.
  private var heldNudges: [RequestBuffer] = []
  /// For each worker the request that it served at the last check, and for how many checks before that.
  private var last: [(unique: UInt64, checks: Int)] = []
  private var quietChecks = 0
  private var lastServed: UInt64 = 0
  private var idleChecks = 0
  private var looks = QueueLooks(interval: 0)
  /// Its buffers that rest.
  private var resting: [RequestBuffer] = []
  /// When the memory that requests have used is given back, if so; and how many requests were served when it was last.
  private var giveBackTime: Int64?
  private var longAtGiveBack: UInt64 = 0

  init(device: CInt, threads: Int) throws(Errno) {
    ring = try CommandRing(buffers: Self.room, device: device)
    signal = try EventDescriptor()
    try ring.raise(signal)
    self.threads = threads
  }

  /// Makes the ring the calling thread's. Returns whether that was possible.
  func enable() -> Bool { (try? ring.enable()) != nil }

  /// Has the thread look at what was left to it.
  func wake() { signal.raise() }

  /// Has the thread look for a while whether requests hang.
  func alert() {
    // Not only read: the request of the calling thread must be visible before.
    if !isAlert.exchange(true, ordering: .sequentiallyConsistent) { wake() }
  }

  /// Has the thread look for a while whether a queue stands still for long.
  func watch() {
    if isWatching.load(ordering: .sequentiallyConsistent) { return }
    if !isWatching.exchange(true, ordering: .sequentiallyConsistent) { wake() }
  }

  func end() {
    isOver.store(true, ordering: .sequentiallyConsistent)
    wake()
  }

  func run(_ rings: RequestRings, _ session: Session, _ hold: BurstHold?) {
    last = rings.workers.map { _ in (0, 0) }
    let (tick, shortTick) = (CInt(session.ticks.reserve / 1000), CInt(max(1, session.ticks.watchdog / 250)))
    looks = QueueLooks(interval: Int64(shortTick) * 1000, hold)
    var nextCheck = MonotonicClock.nanoseconds
    var endOfRest = nextCheck
    var nextLook: Int64?
    while !isOver.load(ordering: .sequentiallyConsistent) {
      var events = (
        pollfd(fd: ring.descriptor, events: Int16(POLLIN), revents: 0),
        pollfd(fd: signal.rawValue, events: Int16(POLLIN), revents: 0)
      )
      submit()
      let watches = isWatching.load(ordering: .relaxed)
      let isAlert = isAlert.load(ordering: .relaxed)
      // What wakes it earlier, as its own nudges do, is no reason to look.
      let start = watches ? MonotonicClock.nanoseconds : 0
      let look = watches ? nextLook ?? start + Int64(shortTick) * 1_000_000 : nil
      nextLook = look
      let untilLook = look.map { CInt(max(0, $0 - start + 999_999) / 1_000_000) }
      let mayWait = rings.someRest || !resting.isEmpty || giveBackTime != nil
      let timeout = untilLook ?? (isAlert ? tick : mayWait ? Self.longestRest : -1)
      unsafe withUnsafeMutableBytes(of: &events) { bytes in
        _ = unsafe poll(bytes.bindMemory(to: pollfd.self).baseAddress, 2, timeout)
      }
      signal.clear()
      for answered in rings.takeAnswered() { commit(answered, rings) }
      gather(rings)
      let now = MonotonicClock.nanoseconds
      if let look, now >= look {
        nextLook = now + Int64(shortTick) * 1_000_000
        self.look(rings, isRegular: true)
      }
      if now >= endOfRest {
        endOfRest = now + Int64(Self.longestRest) * 1_000_000
        // Who rests has given back its memory already, and must not be found waiting in the place of who has not.
        if let time = giveBackTime, now >= time, !isWatching.load(ordering: .relaxed) {
          giveBack(rings)
        } else {
          endRest(rings)
        }
      }
      guard isAlert, now >= nextCheck else { continue }
      nextCheck = now + session.ticks.reserve * 1000
      check(rings, session)
    }
  }

  // MARK: Its buffers

  @discardableResult
  private func add(_ command: CommandRing.Command, _ buffer: RequestBuffer) -> UInt64 {
    nextTag += 1
    buffers[nextTag] = Waiting(buffer: buffer, command: command)
    let commit = command == .register ? 0 : RingAnswer.commitID(in: buffer)
    while (try? ring.add(command, buffer, commit: commit, tag: nextTag)) == nil { Thread.sleep(microseconds: 1000) }
    return nextTag
  }

  /// Submits what was added. Nothing is written into a buffer later than in this call, until the thread asks for
  /// completions.
  private func submit() {
    if ring.hasUnsubmitted { try? ring.enter(awaiting: 0, gathers: false) }
  }

  private func commit(_ answered: AnsweredBuffer, _ rings: RequestRings) {
    rings.queues[answered.buffer.queue].enterKept()
    let tag = add(.commitAndFetch, answered.buffer)
    submit()
    let arrived = takeCompletions()
    // If it failed, the connection has ended.
    if answered.secrets > 0, !ring.hasUnsubmitted {
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
    guard let waiting = buffers.removeValue(forKey: tag) else { return }
    let buffer = waiting.buffer
    let queue = rings.queues[buffer.queue]
    guard result == 0 else {
      if result == -EAGAIN || result == -EINTR {
        add(waiting.command, buffer)
      } else {
        _ = queue.leaveKept()
        // The kernel may still know the address.
        lost.append(buffer)
      }
      return
    }
    let isLast = queue.leaveKept() <= 0
    let header = RingAnswer.header(in: buffer)
    if rings.isNudge(header) {
      if RequestRings.asksForRest(header) {
        buffer.releaseData()
        if !isLast {
          queue.remove()
          return resting.append(buffer)
        }
      }
      if isLast || rings.deferredCount.load(ordering: .relaxed) == 0 { return answerNudge(in: buffer, rings) }
      heldNudges.append(buffer)
      return rings.nudge(queue)
    }
    // There may be more, which the others that wait are not given.
    if !isLast { rings.expectBacklog(of: queue) }
    let isFollowed = !isLast || rings.widen(queue)
    if let worker = rings.spare() {
      worker.join(queue, buffer, hasRequest: true)
    } else {
      rings.deferRequest(in: buffer)
    }
    if !isFollowed { addBuffer(to: queue, rings) }
  }

  /// Waits for requests of a queue that has no other buffer left to wait with.
  private func addBuffer(to queue: RingQueue, _ rings: RequestRings) {
    guard let buffer = try? RequestRings.makeBuffer(queue.number) else { return }
    queue.addKept()
    add(.register, buffer)
    submit()
    rings.expectBacklog(of: queue)
    rings.nudge(queue)
  }

  private func answerNudge(in buffer: RequestBuffer, _ rings: RequestRings) {
    RingAnswer.refuse(EAGAIN, to: RingAnswer.commitID(in: buffer), in: buffer)
    rings.queues[buffer.queue].mayHaveBacklog.store(false, ordering: .relaxed)
    rings.queues[buffer.queue].enterKept()
    add(.commitAndFetch, buffer)
  }

  private func look(_ rings: RequestRings, isRegular: Bool) {
    for queue in looks.look(rings, isRegular: isRegular) { addBuffer(to: queue, rings) }
    guard looks.areOver else { return }
    if isRegular, rings.servedLongCount != longAtGiveBack {
      giveBackTime = MonotonicClock.nanoseconds + Int64(Self.longestRest) * 1_000_000
    }
    isWatching.store(false, ordering: .sequentiallyConsistent)
    // Who took a request in the meantime may have found it set.
    if rings.queues.contains(where: \.standsStill) { watch() }
  }

  private func endRest(_ rings: RequestRings) {
    rings.widenAll()
    for buffer in resting {
      rings.queues[buffer.queue].restore()
      answerNudge(in: buffer, rings)
    }
    resting = []
  }

  /// Has the memory given back that requests have used. There have been few for a while.
  private func giveBack(_ rings: RequestRings) {
    giveBackTime = nil
    longAtGiveBack = rings.servedLongCount
    for queue in rings.queues { for _ in 0..<queue.idleCount { rings.requestRest(on: queue) } }
  }

  // MARK: Requests that hang

  private func check(_ rings: RequestRings, _ session: Session) {
    var (busy, served) = (0, UInt64(0))
    var hanging: [RingWorker] = []
    for (index, worker) in rings.workers.enumerated() {
      let unique = worker.answer.currentUnique
      let isSame = unique != 0 && unique == last[index].unique
      last[index] = (unique, isSame ? last[index].checks + 1 : 0)
      if unique != 0 { busy += 1 }
      if last[index].checks >= Self.patience { hanging.append(worker) }
      served &+= worker.answer.servedCount
    }
    // A store that is slow serves some.
    idleChecks = served == lastServed && hanging.count >= threads ? idleChecks + 1 : 0
    lastServed = served
    let isStuck = idleChecks >= Self.patience
    rings.isStuck.store(isStuck, ordering: .relaxed)
    if isStuck { session.refuseWithoutStore(hanging, rings.deferred) }
    while rings.deferredCount.load(ordering: .relaxed) > 0, let worker = rings.spare() {
      guard let buffer = rings.takeDeferred() else {
        if !rings.park(worker) { worker.end() }
        break
      }
      worker.join(rings.queues[buffer.queue], buffer, hasRequest: true)
    }
    let hasDeferred = rings.deferredCount.load(ordering: .relaxed) > 0
    if hasDeferred || !hanging.isEmpty { for queue in rings.queues { rings.nudge(queue) } }
    if !hasDeferred {
      for buffer in heldNudges { answerNudge(in: buffer, rings) }
      heldNudges = []
    }
    if !isWatching.load(ordering: .relaxed) { look(rings, isRegular: false) }
    quietChecks = busy == 0 && !hasDeferred ? quietChecks + 1 : 0
    guard quietChecks >= DeviceWatch.quietTicks else { return }
    quietChecks = 0
    isAlert.store(false, ordering: .sequentiallyConsistent)
    // Who took a request in the meantime may have found it set.
    let isBusy = rings.workers.contains { $0.answer.currentUnique != 0 }
    if isBusy || rings.deferredCount.load(ordering: .relaxed) > 0 { alert() }
  }
}
