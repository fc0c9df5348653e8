import Foundation
import ProtectfsIO
import TestVectors

/// What scripts/simulate.sh asks for.
package enum Simulation {
  private static func number(_ name: String) -> UInt64? {
    ProcessInfo.processInfo.environment["PROTECTFS_SIMULATED_\(name)"].flatMap { UInt64($0) }
  }

  /// Of how many steps all sequences are made; `nil` outside of that script.
  package static let length = number("LENGTH").map { Int($0) }
  /// For how many seconds longer ones are made.
  package static let seconds = number("SECONDS").map { Int64($0) } ?? 0
  /// What random choices depend on.
  static let seed = number("SEED") ?? UInt64.random(in: 0...9_999_999)

  /// - Parameter number: what is chosen: a sequence, say.
  package static func generator(_ number: UInt64) -> RepeatableGenerator {
    RepeatableGenerator(seed: seed &* 0xD134_2543_DE82_EF95 &+ number)
  }

  /// The kind of changes that alone are made, if it is one.
  package static let only = ProcessInfo.processInfo.environment["PROTECTFS_SIMULATED_ONLY"]

  /// What time and random bytes are for.
  package enum Part: UInt64 {
    /// A store is made.
    case store = 1
    /// It is changed.
    case steps
    /// A call of the last change fails.
    case failure
    /// It is looked at, and put right, after a power cut.
    case nextStart
  }

  /// Calls `body`, for which the time and the random bytes are those of the seed: with the same calls it leaves the
  /// same bytes on a disk. Each part of what is done to a store has bytes of its own, or keys would be used twice.
  package static func repeatably<Result: ~Copyable, Failure: Error>(
    _ part: Part, _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    #if DEBUG
      let source = RandomSource(RepeatableGenerator(seed: seed &* 0x9FB2_1C65_1E98_DF25 &+ part.rawValue))
      return try SimulatedTime(timeOfDay: 1_700_000_000).run { () throws(Failure) in try source.run(body) }
    #else
      return try body()
    #endif
  }
}
