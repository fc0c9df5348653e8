import Glibc
import Testing

extension MountTests {
  /// Random calls on a mount that is locked, unlocked, mounted again and killed, against a model in memory.
  /// scripts/model-check.sh runs it for longer.
  @Suite struct ModelTests {
    @Test(arguments: seeds) func agreesWithAModel(seed: UInt64) throws {
      var run = ModelRun(seed: seed)
      if let seconds = Self.number("SECONDS") { run.seconds = Double(seconds) }
      if let operations = Self.number("OPERATIONS") { run.operations = operations }
      if let every = Self.number("EVERY") { run.comparesEvery = every }
      if let workers = Self.number("WORKERS") { run.workerCount = workers }
      if let crashes = Self.number("CRASHES") { run.crashes = crashes > 0 }
      if let length = Self.number("TRACE") { run.traceLength = length }
      print("model: seed \(seed), \(run.workerCount) workers")
      do {
        print("model: seed \(seed): \(try run.run().description)")
      } catch let failure as ModelRun.Failure {
        print("model: \(failure)")
        Issue.record("seed \(seed) makes a difference: \(failure)")
      }
    }

    @Test(.disabled(if: number("SEEDS") != nil)) func agreesWithAModelUnderSeveralWorkers() throws {
      let seed = UInt64.random(in: 1...1_000_000)
      print("model: seed \(seed), 4 workers")
      let run = ModelRun(seed: seed, workerCount: 4)
      print("model: seed \(seed): \(try run.run().description)")
    }

    /// One seed that is always the same and one more, or those in `PROTECTFS_MODEL_SEEDS`.
    static let seeds: [UInt64] =
      variable("SEEDS").map { $0.split(separator: " ").compactMap { UInt64($0) } } ?? [1, .random(in: 1...1_000_000)]

    private static func number(_ name: String) -> Int? { variable(name).flatMap { Int($0) } }

    private static func variable(_ name: String) -> String? {
      unsafe getenv("PROTECTFS_MODEL_\(name)").map { unsafe String(cString: $0) }
    }
  }
}
