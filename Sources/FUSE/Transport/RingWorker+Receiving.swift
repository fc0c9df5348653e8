import CFUSE
import Glibc
import Synchronization

// What a thread of the rings does with what comes, before it serves it: nudges it answers, and some requests it leaves
// to others.
extension RingWorker {
  /// The number of requests in a row found waiting, after which another thread is to help.
  private static let patience = 16

  enum Received {
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
  func receive(from queue: RingQueue, _ rings: RequestRings) -> Received {
    var isAfterNudge = false
    while true {
      switch fetch() {
      case .end: return .end
      case .lost:
        _ = queue.leave()
        return .lost
      case .request(let wasThere):
        if let header = answer.header, rings.isNudge(header) {
          if answerNudge(header, on: queue, rings) { return .chance }
          isAfterNudge = true
          commit(to: queue)
          continue
        }
        if wasThere { noteBacklog(of: queue, isAfterNudge: isAfterNudge, rings) }
        countQueued(wasThere, on: queue, rings)
        isAfterNudge = false
      }
      let othersWait = rings.leave(queue, answer, by: number)
      if rings.isStuck.load(ordering: .relaxed), let worker, refusesWithoutStore(worker) {
        answer.wipeReceived()
        answer.refuse(EACCES)
        commit(to: queue)
      } else if othersWait || !deferRequest(of: queue, rings) {
        return .request
      }
    }
  }

  /// Answers a nudge, and rests if it asks for that. Returns whether the thread may do something else, since there is
  /// another one for the next request of the queue, and something was deferred.
  private func answerNudge(_ header: fuse_in_header, on queue: RingQueue, _ rings: RequestRings) -> Bool {
    let othersWait = queue.leave() > 0
    answer.refuse(EAGAIN)
    if othersWait, rings.deferredCount.load(ordering: .relaxed) > 0 { return true }
    if RequestRings.asksForRest(header) { answer.buffer?.releaseData() }
    if queue.idleWorkers > 0, rings.rest(self, on: queue, header) {
      queue.remove()
      wakeup.wait()
      queue.restore()
      if rings.deferredCount.load(ordering: .relaxed) > 0 { return true }
    }
    // The commit finds out. Later, there might be a backlog that it has not seen.
    queue.mayHaveBacklog.store(false, ordering: .relaxed)
    return false
  }

  /// A request had queued up, and there may be more that the other buffers which wait are not given.
  private func noteBacklog(of queue: RingQueue, isAfterNudge: Bool, _ rings: RequestRings) {
    guard queue.idleCount > 1 else { return }
    rings.expectBacklog(of: queue)
    if isAfterNudge { rings.nudge(queue) }
  }

  private func countQueued(_ wasThere: Bool, on queue: RingQueue, _ rings: RequestRings) {
    queued = wasThere && !rings.isStream(answer) ? queued + 1 : 0
    guard queued == Self.patience else { return }
    queued = 0
    rings.relieve(queue)
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
}
