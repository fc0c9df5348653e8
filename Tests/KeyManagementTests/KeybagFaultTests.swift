import SimulatedDisk
import SystemPackage
import Testing

@testable import KeyManagement

/// Each of the store's calls fails once during a change of keys: the keybag that is in place is the old one or the new
/// one, as the error says, it opens, and what a change has retired opens nothing after the next start.
@Suite("Failing calls during changes of keys") struct KeybagFaultTests {
  private static let pairs = [
    ["begin a rotation", "finish a rotation"], ["erase a class", "take in the keys of the first keybag"],
    ["begin a rotation", "import the first keybag in place of it"], ["add a protector", "restore the keybag before"],
    ["add a protector", "restore the keybag before, where names are not exchanged"],
  ]
  private static let sequences =
    KeyChange.all.map { [$0] } + pairs.map { pair in KeyChange.all.filter { pair.contains($0.name) } }

  @Test(arguments: CallFailure.all) func theErrorSaysWhatIsInPlace(_ failure: CallFailure) throws {
    var count = 0
    for sequence in Self.sequences {
      var number = 1
      while try Simulation.repeatably(.steps, { try fail(failure, at: number, of: sequence) }) { number += 1 }
      count += number - 1
    }
    #expect(count > 30)
  }

  /// Makes the last change with one of the store's calls failing; `false` if there are not so many, or nothing for a
  /// change before it to do.
  private func fail(_ failure: CallFailure, at number: Int, of sequence: [KeyChange]) throws -> Bool {
    let keys = try SimulatedKeys()
    for change in sequence.dropLast() {
      guard try keys.make(change) != nil else { return false }
    }
    guard let change = sequence.last else { return false }
    let (before, both) = (try keys.found(), try keys.exchanged(by: change))
    keys.earlier.append(before)
    let result = Result { try keys.make(change) { keys.disk.arm(failure, at: number) } }
    guard let hit = keys.disk.disarm() else { return false }
    let outcome = if case .failure(let error) = result { "\(error)" } else { "done" }
    let place = "\(sequence.map(\.name)), call \(number), \(hit), \(failure): \(outcome)"
    let after = try keys.found()
    switch result {
    case .success(let made?):
      #expect(after == made.after, "\(place)")
      let trial = CrashTrial(on: keys.disk) { image, _ in
        try keys.problem(of: image, mayBe: [made.after], retires: change.retires, both: both)
      }
      var generator = Simulation.generator(0)
      let problems = trial.run(using: &generator, atEnd: true).problems
      #expect(problems.isEmpty, "\(place): \(problems)")
    // There was nothing to do.
    case .success: break
    case .failure(let error):
      let isAfterChange = try #require(error as? KeyManagementError, "\(place)").isAfterChange
      #expect((after != before) == isAfterChange, "\(place)")
      let problem = try keys.problem(
        of: keys.disk.image, mayBe: [after], retires: change.retires && after != before, both: both)
      #expect(problem == nil, "\(place): \(problem ?? "")")
    }
    return true
  }
}
