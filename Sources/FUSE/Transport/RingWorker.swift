import CFUSE
import Glibc
import ProtectfsIO
import Synchronization
import SystemPackage

/// A thread with a ring and one buffer: it fetches a request, serves it, and commits the answer in the same call that
/// fetches the next one.
///
/// The kernel writes a request into the buffer by the thread that waits for it. A thread with one buffer is never given
/// a request while it serves another, so that none waits behind one that hangs.
@safe final class RingWorker: @unchecked Sendable {
  private let ring: CommandRing
  let answer = RingAnswer()
  let served = ServedRequest()
  private let wakeup = Semaphore()
  /// Set before `wakeup` is posted; `nil` for the end.
  private var task: (queue: RingQueue, buffer: RequestBuffer, hasRequest: Bool)?
  private var command = CommandRing.Command.register
  /// The maximum number of bytes of data that were in the buffer since its memory was released.
  private var mostUsed = 0
  /// The number of requests in a row that were there before the thread asked for them.
  private var queued = 0
  /// Whether the thread runs on the processor of its queue alone.
  private var isBound = false
  /// What serves the requests. Set before the thread starts.
  var worker: Worker?

  /// Its place among the workers.
  let number: Int

  init(_ number: Int, device: CInt) throws(Errno) {
    self.number = number
    ring = try CommandRing(buffers: 1, device: device)
  }

  /// Has the thread work for a queue, with a buffer that has a request, or that the kernel does not know yet. It must
  /// be waiting.
  func join(_ queue: RingQueue, _ buffer: RequestBuffer, hasRequest: Bool) {
    if !hasRequest { queue.add() }
    task = (queue, buffer, hasRequest)
    wakeup.post()
  }

  /// Has the thread go on, which rests.
  func wake() { wakeup.post() }

  /// Ends the thread, which must be waiting.
  func end() {
    task = nil
    wakeup.post()
  }

  /// Makes the ring the calling thread's. Returns whether that was possible.
  func enable() -> Bool { (try? ring.enable()) != nil }

  /// Works until the connection has ended.
  func run(_ rings: RequestRings) {
    worker?.becomeCurrent()
    repeat {
      wakeup.wait()
      guard let task else { return }
      bind(to: task.queue)
      answer.buffer = task.buffer
      if !task.hasRequest { register(on: task.queue, rings) }
      guard work(task.queue, rings, hasRequest: task.hasRequest) else { return }
    } while rings.park(self)
  }

  /// Gives the kernel the buffer, at once: a nudge may follow. What has queued up by now, the buffer is not given.
  private func register(on queue: RingQueue, _ rings: RequestRings) {
    add(.register)
    try? ring.enter(awaiting: 0, gathers: false)
    rings.expectBacklog(of: queue)
  }

  private func add(_ command: CommandRing.Command) {
    guard let buffer = answer.buffer else { return }
    self.command = command
    // The ring has room for one command, and each is submitted before the next.
    try? ring.add(command, buffer, commit: command == .register ? 0 : answer.commitID, tag: 0)
  }

  /// Serves requests of a queue. Returns `true` if the buffer was taken over or lost, `false` if the connection has
  /// ended.
  private func work(_ first: RingQueue, _ rings: RequestRings, hasRequest: Bool) -> Bool {
    var (queue, next) = (first, hasRequest ? Received.request : nil)
    while true {
      let received = next ?? receive(from: queue, rings)
      next = nil
      if received == .end { return false }
      if received == .lost {
        answer.buffer = nil
        return true
      }
      let isTakenOver = received == .request && serve(on: queue, rings)
      if let deferred = rings.takeDeferred() {
        if !isTakenOver, let buffer = answer.buffer {
          rings.handOver(AnsweredBuffer(buffer: buffer, secrets: answer.secrets))
        }
        answer.buffer = deferred
        queue = rings.queues[deferred.queue]
        bind(to: queue)
        next = .request
      } else if isTakenOver {
        answer.buffer = nil
        return true
      } else {
        commit(to: queue)
      }
    }
  }

  private func commit(to queue: RingQueue) {
    queue.enter()
    add(.commitAndFetch)
  }

  // MARK: A request

  /// The number of requests in a row found waiting, after which another thread is to help.
  private static let patience = 16

  private enum Received {
    /// A request that this thread is to serve.
    case request
    /// Nothing: the answer is in the buffer already, and the thread may do something else.
    case chance
    /// The kernel has not taken the buffer.
    case lost
    /// The connection has ended.
    case end
  }

  /// Waits for a request that this thread is to serve.
  private func receive(from queue: RingQueue, _ rings: RequestRings) -> Received {
    var isAfterNudge = false
    while true {
      let isOld: Bool
      switch fetch() {
      case .request(let wasThere): isOld = wasThere
      case .lost:
        _ = queue.leave()
        return .lost
      case .end: return .end
      }
      let header = answer.header
      if let header, rings.isNudge(header) {
        let othersWait = queue.leave() > 0
        answer.refuse(EAGAIN)
        // Another thread is there for the next request of this queue, so this one takes what was deferred.
        if othersWait, rings.deferredCount.load(ordering: .relaxed) > 0 { return .chance }
        if queue.idleWorkers > 0, rings.rest(self, on: queue, header) {
          queue.remove()
          releaseMemory()
          wakeup.wait()
          queue.restore()
          if rings.deferredCount.load(ordering: .relaxed) > 0 { return .chance }
        }
        isAfterNudge = true
        // The commit finds out. Later, there might be a backlog that it has not seen.
        queue.mayHaveBacklog.store(false, ordering: .relaxed)
      } else {
        // It had queued up, and there may be more that the other buffers which wait are not given.
        if isOld, queue.idleCount > 1 {
          rings.expectBacklog(of: queue)
          if isAfterNudge { rings.nudge(queue) }
        }
        isAfterNudge = false
        queued = isOld && !rings.isStream(answer) ? queued + 1 : 0
        if queued == Self.patience {
          queued = 0
          rings.relieve(queue)
        }
        let othersWait = rings.leave(queue, answer, by: number)
        if rings.isStuck.load(ordering: .relaxed), let worker, refusesWithoutStore(worker) {
          answer.wipeReceived()
          answer.refuse(EACCES)
        } else if othersWait || !deferRequest(of: queue, rings) {
          return .request
        } else {
          continue
        }
      }
      commit(to: queue)
    }
  }

  /// Whether a lock refuses the request, as far as that can be known without the store.
  private func refusesWithoutStore(_ worker: Worker) -> Bool {
    guard let (request, count, _) = unsafe answer.begin() else { return false }
    defer { answer.end() }
    return unsafe worker.refusesWithoutStore(UnsafeRawBufferPointer(rebasing: request[..<count]))
  }

  /// Defers the request in the buffer, since no thread is left for the next one, and waits for that with another
  /// buffer. Returns `false` if there is no room for more.
  private func deferRequest(of queue: RingQueue, _ rings: RequestRings) -> Bool {
    guard let buffer = answer.buffer, rings.hasRoom, let other = try? RequestRings.makeBuffer(queue.number) else {
      return false
    }
    rings.deferRequest(in: buffer)
    answer.buffer = other
    queue.add()
    register(on: queue, rings)
    rings.nudge(queue)
    return true
  }

  /// Serves the request in the buffer. Returns whether another thread has answered, and the buffer is no longer this
  /// thread's.
  private func serve(on queue: RingQueue, _ rings: RequestRings) -> Bool {
    defer { answer.end() }
    if let worker, let (request, count, data) = unsafe answer.begin() {
      rings.alertIfBusy(queue)
      place(on: queue, rings)
      if unsafe worker.serve(request, count: count, data: data) {
        // Another thread has answered, and may have taken the buffer for that.
        answer.byOther.wait()
        if answer.isTakenOver { return true }
        answer.refuse(EIO)
      } else if !answer.isComplete {
        answer.byOther.wait()
      }
    } else {
      answer.refuse(EIO)
    }
    answer.countServed()
    mostUsed = max(mostUsed, answer.extent, answer.receivedCount)
    return false
  }

  private func bind(to queue: RingQueue) {
    queue.bindThread()
    isBound = true
  }

  /// Serves a long transfer on any processor: it takes longer than to wake one, and its client goes on meanwhile.
  private func place(on queue: RingQueue, _ rings: RequestRings) {
    if rings.isLongTransfer(answer) {
      if isBound { CommandRing.unbindThread() }
      isBound = false
    } else if !isBound {
      bind(to: queue)
    }
  }

  /// Gives back the memory that large requests have used.
  private func releaseMemory() {
    if mostUsed > 1 << 16 { answer.buffer?.releaseData() }
    mostUsed = 0
  }

  private enum Fetched {
    /// A request, and whether it was there before.
    case request(wasThere: Bool)
    case lost
    case end
  }

  /// Submits the command that was added, and waits for its result.
  private func fetch() -> Fetched {
    do throws(Errno) {
      // Nothing is written into the buffer later than in this call, until the thread asks for completions.
      try ring.enter(awaiting: 0, gathers: false)
      var result = ring.take()?.result
      if answer.holdsSecrets, let buffer = answer.buffer {
        RingAnswer.wipe(buffer, extent: answer.secrets, isForNext: result == 0)
        answer.holdsSecrets = false
      }
      let wasThere = result != nil
      while true {
        while result == nil {
          do throws(Errno) { try ring.enter(awaiting: 1) } catch { guard error == .interrupted else { throw error } }
          result = ring.take()?.result
        }
        switch result {
        case 0: return .request(wasThere: wasThere)
        case -EAGAIN, -EINTR: add(command)
        case -ENOTCONN, -ECONNABORTED, -ECANCELED: return .end
        default: return .lost
        }
        result = nil
      }
    } catch {
      return .end
    }
  }
}
