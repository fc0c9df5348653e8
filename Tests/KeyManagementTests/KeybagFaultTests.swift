import SimulatedDisk
import SystemPackage
import Testing

@testable import KeyManagement

/// Each of the store's calls fails once during a change of keys: the keybag that is in place is the old one or the new
/// one, as the error says, it opens, and what a change has revoked opens nothing after the next start.
@Suite("Failing calls during changes of keys") struct KeybagFaultTests {
  private static let sequences = KeyChange.all.map { [$0] } + [[3, 4], [5, 6]].map { $0.map { KeyChange.all[$0] } }

  @Test(arguments: CallFailure.all) func theErrorSaysWhatIsInPlace(_ failure: CallFailure) throws {
    var count = 0
    for sequence in Self.sequences {
      for number in 1... {
        let keys = try SimulatedKeys()
        var isPossible = true
        for change in sequence.dropLast() { isPossible = try keys.make(change) != nil && isPossible }
        guard isPossible, let change = sequence.last else { break }
        let before = try keys.found()
        let result = Result { try keys.make(change) { keys.disk.arm(failure, at: number) } }
        guard let hit = keys.disk.disarm() else { break }
        count += 1
        let place = "\(sequence.map(\.name)), call \(number), \(hit), \(failure): \(result)"
        let after = try keys.found()
        switch result {
        case .success(let made?):
          #expect(after == made.after, "\(place)")
          keys.earlier.append(before)
          let trial = CrashTrial(on: keys.disk) { image, _ in
            try keys.problem(of: image, mayBe: [made.after], revokes: change.revokes)
          }
          var generator = Simulation.generator(0)
          let problems = trial.run(using: &generator, atEnd: true).problems
          #expect(problems.isEmpty, "\(place)")
          continue
        // There was nothing to do.
        case .success: continue
        case .failure(let error as KeyManagementError): #expect((after != before) == error.isAfterChange, "\(place)")
        case .failure: Issue.record("\(place)")
        }
        keys.earlier.append(before)
        let problem = try keys.problem(of: keys.disk.image, mayBe: [after], revokes: change.revokes && after != before)
        #expect(problem == nil, "\(place)")
      }
    }
    #expect(count > 30)
  }
}
