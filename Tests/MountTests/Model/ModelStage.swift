import Glibc
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage

/// The mount that the workers of a run share: its lock state, as far as it is known at a moment, and the crashes.
final class ModelStage: Sendable {
  /// The possible lock states, and whether the daemon was being killed.
  struct Sample {
    var epoch = 0
    var states: Set<LockState> = [.beforeFirstUnlock]
    var isCrashed = false
  }

  private struct State {
    var sample = Sample()
    var isPausing = false
    var parkedCount = 0
    var isOver = false
    var differences: [String] = []
  }

  let volume: Volume
  let conditions: ModelRun.Conditions
  private let options: [String]
  private let state = Mutex(State())
  /// Held shared for comparisons, and exclusively to change the lock state.
  let settled = ReaderWriterLock(.test)

  init(_ volume: Volume, _ conditions: ModelRun.Conditions) {
    self.volume = volume
    self.conditions = conditions
    let period = conditions.isInactiveAtOnce ? 0.1 : 600
    options = ["-o", "allow_other,inactive=\(period),replace_class=\(conditions.keepsReplacedClass ? "keep" : "move")"]
  }

  // MARK: What workers ask

  var sample: Sample { state.withLock { $0.sample } }
  var isOver: Bool { state.withLock { $0.isOver } }
  var isPausing: Bool { state.withLock { $0.isPausing } }
  var differences: [String] { state.withLock { $0.differences } }

  /// The lock states possible between two samples.
  static func states(from before: Sample, to after: Sample) -> Set<LockState> {
    before.epoch == after.epoch
      ? before.states.union(after.states) : [.beforeFirstUnlock, .unlocked, .gracePeriod, .locked, .inactive]
  }

  func end(with difference: String? = nil) {
    state.withLock { state in
      state.isOver = true
      if let difference { state.differences.append(difference) }
    }
  }

  // MARK: Lock and unlock

  private func change(to settledState: LockState, over states: Set<LockState>, _ body: () throws -> Void) throws {
    try settled.write {
      state.withLock { state in
        state.sample.epoch += 1
        state.sample.states.formUnion(states)
      }
      try body()
      state.withLock { state in
        state.sample.epoch += 1
        state.sample.states = [settledState]
      }
    }
  }

  var isUnlocked: Bool { sample.states == [.unlocked] }

  func lock() throws {
    try change(to: conditions.isInactiveAtOnce ? .inactive : .locked, over: [.gracePeriod, .locked, .inactive]) {
      try volume.lock()
      if conditions.isInactiveAtOnce { try volume.wait(for: .inactive) }
    }
  }

  func unlock() throws {
    try change(to: .unlocked, over: [.unlocked]) { try volume.unlock() }
  }

  func announceLock() throws {
    try change(to: .gracePeriod, over: [.gracePeriod]) { try volume.announceLock(gracePeriod: .seconds(60)) }
  }

  // MARK: Mounting again

  /// Waits until all workers are parked, calls `body`, and resumes them.
  func pausing(_ count: Int, _ body: () throws -> Void) throws {
    state.withLock { $0.isPausing = true }
    while state.withLock({ $0.parkedCount < count && !$0.isOver }) { usleep(1000) }
    if !isOver { try body() }
    state.withLock { $0.isPausing = false }
    // They compare everything before anything else happens.
    while state.withLock({ $0.parkedCount > 0 && !$0.isOver }) { usleep(1000) }
  }

  /// Called by a worker that has closed everything: waits until the pause is over, and calls `body` before the worker
  /// counts as resumed.
  func park(_ body: () throws -> Void) throws {
    state.withLock { $0.parkedCount += 1 }
    defer { state.withLock { $0.parkedCount -= 1 } }
    while state.withLock({ $0.isPausing || $0.sample.isCrashed }), !isOver { usleep(1000) }
    if !isOver { try body() }
  }

  func remount() throws {
    try change(to: .beforeFirstUnlock, over: [.beforeFirstUnlock]) {
      try volume.unmountOnceIdle()
      try volume.mount(options)
    }
  }

  func mount() throws {
    try volume.mount(options)
  }

  /// Kills the daemon. Every call that has not returned by now may fail.
  func crash() {
    state.withLock { $0.sample.isCrashed = true }
    volume.kill()
  }

  /// Mounts again after a crash. All workers have closed everything.
  func recover() throws {
    // Freeing a daemon that hangs may have removed the mount.
    if volume.isMounted { try volume.mountPoint.unmount(isLazy: true) }
    try volume.mount(options)
    state.withLock { state in
      state.sample.epoch += 1
      state.sample.states = [.beforeFirstUnlock]
      state.sample.isCrashed = false
    }
  }
}
