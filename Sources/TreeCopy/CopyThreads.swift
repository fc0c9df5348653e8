import ProtectfsIO
import SystemPackage

/// Threads that copy files, each with buffers of its own: while one waits for the store, others use the processors.
final class CopyThreads: Sendable {
  typealias Task = @Sendable (VerifiedCopy) -> Void

  private struct State {
    var tasks: [Task] = []
    var running = 0
    var isEnding = false
  }

  /// How many files are copied at the same time. What a copy waits for is the disk, which does for several files at
  /// once what it does for one.
  private static let count = 8

  private let monitor = Monitor(.copyTasks, State())
  private let threads: [Thread]

  /// - Parameter step: told the bytes of each step of each copy; may end the copy.
  /// - Throws: `EAGAIN` if not one thread can be started; fewer than are wanted do.
  init(_ step: @escaping @Sendable (Int) throws(CopyError) -> Void) throws(Errno) {
    threads = (0..<Self.count).compactMap { [monitor] _ in
      try? Thread(starting: "copy") {
        let copier = VerifiedCopy(step)
        while let task = Self.next(monitor) {
          task(copier)
          monitor.update { $0.running -= 1 }
        }
      }
    }
    if threads.isEmpty { throw .resourceTemporarilyUnavailable }
  }

  private static func next(_ monitor: Monitor<State>) -> Task? {
    monitor.wait { (state, _) -> Task?? in
      if !state.tasks.isEmpty {
        state.running += 1
        return state.tasks.removeFirst()
      }
      return state.isEnding ? .some(nil) : nil
    }
  }

  /// Has a task done, at once or soon.
  func add(_ task: @escaping Task) {
    monitor.wait { (state, _) -> Void? in
      guard state.tasks.count < Self.count else { return nil }
      state.tasks.append(task)
      return ()
    }
  }

  /// Waits until all tasks are done.
  func drain() {
    monitor.wait { (state, _) -> Void? in state.tasks.isEmpty && state.running == 0 ? () : nil }
  }

  /// Waits until all tasks are done, and ends the threads.
  func end() {
    monitor.update { $0.isEnding = true }
    for thread in threads { thread.join() }
  }
}
