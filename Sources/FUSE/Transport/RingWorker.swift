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
  let wakeup = Semaphore()
  /// Set before `wakeup` is posted; `nil` for the end.
  private var task: (queue: RingQueue, buffer: RequestBuffer, hasRequest: Bool)?
  private var command = CommandRing.Command.register
  /// The number of requests in a row that were there before the thread asked for them.
  var queued = 0
  /// Whether the thread runs on the processor of its queue alone.
  private var isBound = false
  /// Whether the last short read took so long that it probably waited for the disk.
  private var readWaited = false
  /// A read that takes more nanoseconds did; waking a processor takes about as long.
  private static let wait: Int64 = 40_000
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
  func register(on queue: RingQueue, _ rings: RequestRings) {
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

  func commit(to queue: RingQueue) {
    queue.enter()
    add(.commitAndFetch)
  }

  // MARK: A request

  /// Serves the request in the buffer. Returns whether another thread has answered, and the buffer is no longer this
  /// thread's.
  private func serve(on queue: RingQueue, _ rings: RequestRings) -> Bool {
    defer { answer.end() }
    let isLong = rings.isLongTransfer(answer)
    if !isLong { rings.waitIfClientMoves(answer, on: queue) }
    if let worker, let (request, count, data) = unsafe answer.begin() {
      rings.alertIfBusy(queue)
      let isShortRead = !isLong && answer.header?.opcode == FUSE_READ.rawValue
      place(on: queue, isLong: isLong || isShortRead && readWaited)
      let start = isShortRead ? MonotonicClock.nanoseconds : 0
      defer { if isShortRead { readWaited = MonotonicClock.nanoseconds - start > Self.wait } }
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
    return false
  }

  private func bind(to queue: RingQueue) {
    queue.bindThread()
    isBound = true
  }

  /// Serves what is presumably long on any processor. A long transfer takes longer than to wake one, and its client
  /// goes on meanwhile. A read that waits for the disk goes on where the disk's interrupt arrives, and the client
  /// follows it.
  private func place(on queue: RingQueue, isLong: Bool) {
    if isLong {
      if isBound { CommandRing.unbindThread() }
      isBound = false
    } else if !isBound {
      bind(to: queue)
    }
  }

  enum Fetched {
    /// A request, and whether it was there before.
    case request(wasThere: Bool)
    case lost
    case end
  }

  /// Submits the command that was added, and waits for its result.
  func fetch() -> Fetched {
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
