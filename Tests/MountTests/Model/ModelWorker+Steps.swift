import Glibc
import ProtectfsIO
import ProtectfsPolicy

// Which call comes next, and how often.
extension ModelWorker {
  private typealias Steps = [(weight: Int, step: @Sendable (ModelWorker) -> () throws -> Void)]

  private static let onContents: Steps = [
    (10, open), (14, read), (16, write), (5, append), (7, truncate), (8, allocate), (5, copy), (4, seek),
    (4, synchronize), (4, close), (3, map), (5, readMapping), (6, writeMapping), (2, unmap), (6, expectStatus),
    (1, setClass), (1, rekey),
  ]
  private static let onNames: Steps = [
    (7, createFile), (3, makeDirectory), (2, makeSymbolicLink), (2, readSymbolicLink), (4, link), (5, unlink),
    (3, removeDirectory), (9, rename), (3, expectNames), (3, setMode), (3, setTime), (4, setAttribute),
    (3, getAttribute), (2, removeAttribute), (2, expectAttributeNames), (4, setClass), (2, rekey),
    (2, removeClass),
  ]

  func step() throws {
    let steps = chance(prefersContents ? 93 : 60) ? Self.onContents : Self.onNames
    var number = Int.random(in: 0..<steps.reduce(0) { $0 + $1.weight }, using: &random)
    for (weight, step) in steps {
      number -= weight
      if number < 0 { return try step(self)() }
    }
  }

  /// Something happens to the mount: between two calls or, for a crash, also during one.
  func changeMount(crashes: Bool) throws {
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<8 where crashes: try crash()
    case 8..<16: try remount()
    case 16..<20:
      note("drop caches")
      try dropCaches()
      try compareEverything()
    case 20..<30 where stage.isUnlocked:
      note("announce a lock")
      try stage.announceLock()
    default:
      note(stage.isUnlocked ? "lock" : "unlock")
      if stage.isUnlocked { try stage.lock() } else { try stage.unlock() }
      if chance(30) { try compareEverything() }
    }
  }

  private func remount() throws {
    note("remount")
    closeEverything()
    try stage.remount()
    tree.synchronizeEverything()
    try compareEverything()
    if chance(80) { try stage.unlock() }
    try compareEverything()
  }

  /// Kills the daemon while calls are made, until one fails.
  private func crash() throws {
    note("crash soon")
    let pause = UInt32.random(in: 0...20_000, using: &random)
    let stage = stage
    let thread = Thread(name: "crash") {
      usleep(pause)
      stage.crash()
    }
    do { while true { try step() } } catch is ModelInterruption { note("crashed") } catch {
      thread.join()
      throw error
    }
    thread.join()
    closeEverything()
    try stage.recover()
    try stage.unlock()
    try compareAfterCrash()
  }

  /// For one of several workers: closes everything, and continues when the mount is back.
  func sitOut() throws {
    let isCrash = stage.sample.isCrashed
    note(isCrash ? "crashed" : "remount")
    closeEverything()
    try stage.park {
      if isCrash { return try compareAfterCrash() }
      tree.synchronizeEverything()
      try compareEverything()
    }
  }
}

extension ModelTree {
  /// The mount has ended cleanly, so everything is on disk.
  mutating func synchronizeEverything() {
    forgetVacated()
    for inode in places.map(\.inode) {
      self[inode].earlier = []
      self[inode].isTimeSynchronized = true
    }
  }
}
