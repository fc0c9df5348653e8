import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import TestVectors

/// A run: a store, its workers, and what happens to the mount meanwhile. Everything follows from the seed, except for
/// the moment of a crash and the order among several workers.
struct ModelRun {
  let seed: UInt64
  var seconds = 10.0
  /// Ends after this many operations of one worker.
  var operations = Int.max
  /// The whole tree is compared each time after this many operations.
  var comparesEvery = 400
  var workerCount = 1
  var crashes = true
  /// The number of calls reported after a difference.
  var traceLength = 60

  /// Conditions that differ between runs, but not during one.
  struct Conditions {
    let rootClass: ProtectionClass
    /// The period after which class CX becomes unavailable is zero rather than infinite.
    let isInactiveAtOnce: Bool
    let keepsReplacedClass: Bool
    let prefersContents: Bool

    init(_ random: inout RepeatableGenerator) {
      func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }
      rootClass =
        [.complete, .completeUnlessOpen, .standard, .standard, .completeWhenUserInactive].randomElement(using: &random)!
      isInactiveAtOnce = chance(30)
      keepsReplacedClass = chance(80)
      prefersContents = chance(40)
    }
  }

  /// A difference and its history.
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  /// Returns what was done.
  func run() throws -> ModelStatistics {
    var random = RepeatableGenerator(seed: seed)
    let conditions = Conditions(&random)
    var statistics = ModelStatistics()
    try Volume.store(defaultClass: conditions.rootClass) { volume in
      let stage = ModelStage(volume, conditions)
      try stage.mount()
      try stage.unlock()
      try volume.mountPoint.setMode(0o755)
      let workers = (0..<workerCount).map { number in
        ModelWorker(stage, number: number, of: self, conditions, seed: random.next())
      }
      if workerCount == 1 { alone(workers[0], stage) } else { together(workers, stage, &random) }
      for worker in workers { statistics.add(worker.statistics) }
      if let difference = stage.differences.first {
        throw Failure(
          description: "seed \(seed), \(workerCount) workers, \(conditions), after \(statistics.operations) "
            + "operations: \(difference)\nThe daemon's log ends with:\n\(volume.log.suffix(1500))")
      }
      try expectSoundStore(volume, workers)
    }
    return statistics
  }

  // MARK: One worker

  /// One worker, whose generator also decides what happens to the mount.
  private func alone(_ worker: ModelWorker, _ stage: ModelStage) {
    let end = ContinuousClock.now + .seconds(seconds)
    while !stage.isOver {
      report(worker, stage) {
        if worker.statistics.operations >= operations || ContinuousClock.now >= end {
          try worker.compareEverything()
          return stage.end()
        }
        let before = worker.statistics.operations
        if worker.chance(1), worker.chance(60) { try worker.changeMount(crashes: crashes) } else { try worker.step() }
        if worker.statistics.operations / comparesEvery != before / comparesEvery { try worker.compareEverything() }
      }
    }
  }

  // MARK: Several workers

  /// Each worker has its own names. The lock state changes, and the daemon ends, while they work.
  private func together(_ workers: [ModelWorker], _ stage: ModelStage, _ random: inout RepeatableGenerator) {
    let threads = workers.map { worker in
      Thread(name: "model", stackSize: 8 << 20) { self.loop(worker, stage) }
    }
    let end = ContinuousClock.now + .seconds(seconds)
    while !stage.isOver, ContinuousClock.now < end {
      usleep(UInt32.random(in: 2000...150_000, using: &random))
      do {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<3 where crashes:
          stage.crash()
          try stage.pausing(workers.count) {
            try stage.recover()
            try stage.unlock()
          }
        case 3..<6: try stage.pausing(workers.count) { try stage.remount() }
        case 6..<15 where stage.isUnlocked: try stage.announceLock()
        default: if stage.isUnlocked { try stage.lock() } else { try stage.unlock() }
        }
      } catch {
        stage.end(with: "the mount: \(error)")
      }
    }
    stage.end()
    threads.forEach { $0.join() }
  }

  private func loop(_ worker: ModelWorker, _ stage: ModelStage) {
    var isInterrupted = false
    while !stage.isOver {
      report(worker, stage) {
        do {
          if isInterrupted || stage.isPausing {
            try worker.sitOut()
            isInterrupted = false
          } else {
            try stepAndCompare(worker, stage)
          }
        } catch is ModelInterruption {
          isInterrupted = true
        }
      }
    }
  }

  private func stepAndCompare(_ worker: ModelWorker, _ stage: ModelStage) throws {
    let before = worker.statistics.operations
    try worker.step()
    guard worker.statistics.operations / comparesEvery != before / comparesEvery else { return }
    try stage.settled.read {
      do { try worker.compareEverything() } catch {
        throw stage.sample.isCrashed ? ModelInterruption() : error
      }
    }
  }

  private func report(_ worker: ModelWorker, _ stage: ModelStage, _ body: () throws -> Void) {
    do {
      try body()
    } catch let error as ModelDifference {
      stage.end(with: "\(error.text)\n\(worker.report)")
    } catch {
      stage.end(with: "\(error)\n\(worker.report)")
    }
  }

  // MARK: Afterwards

  /// The checker finds nothing in the store, and the daemon has reported no damage.
  private func expectSoundStore(_ volume: Volume, _ workers: [ModelWorker]) throws {
    for worker in workers { worker.closeEverything() }
    try volume.unlock()
    try volume.finishRekeys()
    let log = volume.log
    try volume.unmount()
    let check = try Command.run(
      ["fsck", volume.backing.description, "--device-key", volume.deviceKey.description, "--passcode-file"]
        + [volume.passcodeFile.description])
    guard check.succeeded else { throw Failure(description: "seed \(seed), fsck: \(check.output)") }
    guard !log.contains("damaged") else { throw Failure(description: "seed \(seed), log: \(log.suffix(3000))") }
  }
}
