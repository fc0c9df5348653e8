import CFUSE
import Glibc
import ProtectfsIO
import Synchronization

// Requests that the daemon has the kernel make, so that the thread which gets one looks after its queue.
extension RequestRings {
  private static let firstRest: UInt64 = EmptyRetrieval.firstNumber | 1 << 61

  /// Has the kernel make a request for the processor of a queue. It is answered at once, and with that the queue goes
  /// on with its oldest request, which the kernel gives to no new buffer, only to one that is committed. A processor on
  /// which the daemon may not run gets none.
  ///
  /// The request is an ``EmptyRetrieval``. If the kernel knows no regular file, another thread asks for the status of
  /// the file system.
  func nudge(_ queue: RingQueue) {
    if !queue.takesNudges { return }
    if requestPages(on: queue, from: EmptyRetrieval.firstNumber) { return }
    // The thread hangs if other requests are before its own and hang; so each is another one.
    let thread = try? Thread(starting: "nudge") { [self] in
      CommandRing.bindThread(to: queue.number)
      let number = Thread.number
      let isOver = state.withLock { state in
        if !state.isOver { state.nudgers.insert(number) }
        return state.isOver
      }
      // Its number may be another file system's by now.
      if isOver { return }
      // The keeper may hold back one that is made while requests are deferred: a use of the mount, as those are.
      if deferredCount.load(ordering: .relaxed) > 0 || !KernelConnection.askForStatus(of: fileSystem) {
        var status = statvfs()
        _ = unsafe statvfs(mountPoint, &status)
      }
      state.withLock { _ = $0.nudgers.remove(number) }
    }
    thread?.detach()
  }

  /// Has the kernel make a request whose thread keeps its buffer from the queue (``rest(_:on:_:)``).
  func requestRest(on queue: RingQueue) {
    if queue.takesNudges { _ = requestPages(on: queue, from: Self.firstRest) }
  }

  /// Returns whether the kernel knows a file.
  private func requestPages(on queue: RingQueue, from first: UInt64) -> Bool {
    guard let file = files.any else { return false }
    let number = first + nextNudge.wrappingAdd(2, ordering: .relaxed).oldValue
    return unsafe EmptyRetrieval.withMessage(number, of: file) { bytes in
      (try? unsafe CommandRing.write(bytes, to: device, on: queue.number)) != nil
    }
  }

  /// Whether a request is such a one.
  func isNudge(_ header: fuse_in_header) -> Bool {
    switch fuse_opcode(rawValue: header.opcode) {
    case FUSE_NOTIFY_REPLY: header.unique >= EmptyRetrieval.firstNumber
    case FUSE_STATFS: state.withLock { $0.nudgers.contains(Int32(bitPattern: header.pid)) }
    default: false
    }
  }

  /// Whether a nudge asks its thread to rest.
  static func asksForRest(_ header: fuse_in_header) -> Bool {
    header.opcode == FUSE_NOTIFY_REPLY.rawValue && header.unique >= firstRest
  }
}
