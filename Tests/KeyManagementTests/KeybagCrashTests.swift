import SimulatedDisk
import Testing

@testable import KeyManagement

/// Changes of keys, one after the other, on a simulated disk whose power is cut at each moment: the keybag that is
/// found is the one from before the change or the one from after it, it opens, and what was retired opens nothing.
@Suite("Power cuts during changes of keys") struct KeybagCrashTests {
  /// - Parameters:
  ///   - pretended: the flush of the last change that is not done.
  ///   - fault: what is wrong with the code.
  private static func trial(
    _ sequence: [KeyChange], pretended: Int? = nil, with fault: PlantedFault? = nil
  ) throws -> CrashTrial? {
    try Simulation.repeatably(.steps) { try changes(sequence, pretended, fault) }
  }

  private static func changes(
    _ sequence: [KeyChange], _ pretended: Int?, _ fault: PlantedFault?
  ) throws -> CrashTrial? {
    let world = try SimulatedKeys()
    for (index, change) in sequence.enumerated() {
      world.disk.beginStep(pretending: index == sequence.count - 1 ? pretended : nil, with: fault)
      let both = try world.exchanged(by: change)
      guard let (before, after) = try world.make(change) else { return nil }
      world.earlier.append(before)
      if index == sequence.count - 1 {
        return CrashTrial(on: world.disk) { image, isDone in
          try world.problem(
            of: image, mayBe: isDone ? [after] : [before, after], retires: change.retires, both: both)
        }
      }
      if change.retires { world.retired += world.earlier }
    }
    return nil
  }

  private static let search = CrashSearch(KeyChange.all, name: \.name) {
    try trial($0)
  }

  /// A disk that only pretends to flush is noticed, but where a later flush makes durable what has to be, before
  /// anything is done that needs it.
  @Test(arguments: KeyChange.all.indices) func flushesAreNeeded(index: Int) throws {
    let change = KeyChange.all[index]
    guard let flushes = try Self.trial([change])?.flushes else { return #expect(change.neededFlushes.isEmpty) }
    let needed = try (1...flushes).filter { flush in
      var generator = Simulation.generator(UInt64(flush))
      return try !Self.trial([change], pretended: flush)!.run(using: &generator).problems.isEmpty
    }
    #expect(needed == change.neededFlushes, "\(change.name)")
  }

  @Test func oldOrNew() async {
    let problems = await Self.search.problems(as: "keys")
    #expect(problems.isEmpty)
  }

  private static let faults = [
    PlantedFault("a keybag that is put in place is not durable", [.fsync, .fdatasync]) { $0.hasSuffix("/keybag.new") },
    PlantedFault("its name is not durable", [.fsync, .fdatasync]) { $0 == "/.protectfs" },
    PlantedFault("old secrets are overwritten late", [.pwrite, .pwritev2], .late) { $0.hasSuffix("/effaceable") },
    PlantedFault("secrets that were overwritten are not durable", [.fsync, .fdatasync]) { $0.hasSuffix("/effaceable") },
    PlantedFault("a keybag is put in place late", [.renameat2], .late) { $0.hasSuffix("/keybag.new") },
  ]

  /// Faults of the code are found.
  @Test(.enabled(if: Simulation.length != nil, "it is for scripts/simulate.sh"), arguments: faults.indices)
  func plantedFaultsAreFound(index: Int) {
    let fault = Self.faults[index]
    let search = CrashSearch(KeyChange.all, name: \.name) { try Self.trial($0, with: fault) }
    #expect(search.finds(fault), "\(fault.name)")
  }
}
