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
  private struct Task {
    let queue: RingQueue
    let buffer: RequestBuffer
    /// The buffer has an answer to a request whose own worker hangs. Otherwise the kernel does not know it yet.
    let hasAnswer: Bool
    /// Requests may be queued already. The kernel gives a new buffer only what comes after it.
    let hasBacklog: Bool
  }

  private let ring: CommandRing
  let answer = RingAnswer()
  let served = ServedRequest()
  private let wakeup = Semaphore()
  /// Set before `wakeup` is posted; `nil` for the end.
  private var task: Task?
  private var command = CommandRing.Command.register
  /// What serves the requests. Set before the thread starts.
  var worker: Worker?

  init(device: CInt) throws(Errno) { ring = try CommandRing(buffers: 1, device: device) }

  /// Has the thread work for a queue, with a buffer. It must be waiting.
  func join(_ queue: RingQueue, _ buffer: RequestBuffer, hasAnswer: Bool = false, hasBacklog: Bool = false) {
    task = Task(queue: queue, buffer: buffer, hasAnswer: hasAnswer, hasBacklog: hasBacklog)
    wakeup.post()
  }

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
      CommandRing.bindThread(to: task.queue.number)
      answer.buffer = task.buffer
      add(task.hasAnswer ? .commitAndFetch : .register)
      if task.hasBacklog { rings.nudge(task.queue) }
      guard serve(task.queue, rings) else { return }
      answer.buffer = nil
    } while rings.park(self)
  }

  private func add(_ command: CommandRing.Command) {
    guard let buffer = answer.buffer else { return }
    self.command = command
    ring.add(command, buffer, commit: command == .register ? 0 : answer.commitID, tag: 0)
  }

  /// Serves requests of a queue. Returns `true` if the buffer was taken over, `false` if the connection has ended.
  private func serve(_ queue: RingQueue, _ rings: RequestRings) -> Bool {
    var isAfterNudge = false
    while let worker, let isOld = fetch(atOnce: isAfterNudge || answer.holdsSecrets) {
      // It was queued when the nudge was answered, and there may be more.
      if isAfterNudge, isOld { rings.nudge(queue) }
      isAfterNudge = false
      // No thread of this queue is left for the next request.
      if queue.leave() { rings.grow(queue) }
      let otherProcessor = answer.header.flatMap { rings.anchors.follow($0.pid, on: queue.number) }
      if let (request, count, data) = unsafe answer.begin() {
        if let header = answer.header, rings.isNudge(header) {
          answer.refuse(EAGAIN)
          isAfterNudge = true
        } else if unsafe worker.serve(request, count: count, data: data) {
          // Another thread has answered, and may have taken the buffer for that.
          answer.byOther.wait()
          if answer.isTakenOver {
            answer.end()
            return true
          }
          answer.refuse(EIO)
        } else if !answer.isComplete {
          answer.byOther.wait()
        }
      } else {
        answer.refuse(EIO)
      }
      answer.end()
      queue.enter()
      if let otherProcessor { rings.anchors.occupy(otherProcessor) }
      add(.commitAndFetch)
    }
    return false
  }

  /// Submits the command that was added, and waits for its result: a request. Returns whether it was there before,
  /// which is found out only if the command is submitted `atOnce`; `nil` if there will be none.
  private func fetch(atOnce: Bool) -> Bool? {
    do throws(Errno) {
      var result: CInt?
      if atOnce {
        // Nothing is written into the buffer later than in this call, until the thread asks for completions.
        try ring.enter(awaiting: 0, gathers: false)
        result = ring.take()?.result
        if answer.holdsSecrets { answer.wipe(isForNext: result == 0) }
        answer.holdsSecrets = false
      }
      let isOld = result != nil
      while true {
        while result == nil {
          do throws(Errno) { try ring.enter(awaiting: 1) } catch { guard error == .interrupted else { throw error } }
          result = ring.take()?.result
        }
        guard result == -EAGAIN || result == -EINTR else { return result == 0 ? isOld : nil }
        result = nil
        add(command)
      }
    } catch {
      return nil
    }
  }
}

/// What the threads of a queue share.
final class RingQueue: Sendable {
  let number: Int
  // Padding: the cache line of the following field contains nothing else.
  private let before = InlineArray<8, UInt64>(repeating: 0)
  /// Threads that wait for a request, or are about to.
  private let idle = Atomic<Int>(0)
  private let after = InlineArray<8, UInt64>(repeating: 0)

  init(number: Int) { self.number = number }

  /// A thread takes a request. Returns whether none is left.
  func leave() -> Bool { idle.wrappingSubtract(1, ordering: .relaxed).newValue <= 0 }

  /// A thread waits for a request.
  func enter() { idle.wrappingAdd(1, ordering: .relaxed) }
}
