import Foundation
import ProtectfsIO
import Testing

@testable import SimulatedDisk

/// What the simulated disk allows to be found after a power cut. scripts/disk-rules.sh has it held against what real
/// file systems leave.
@Suite("Rules of the simulated disk") struct DiskRulesTests {
  /// Each sequence can be made; what is found after a call may be found during it too.
  @Test func sequencesHaveStates() throws {
    let states = try CallSequence.all().map { try $0.states() }
    #expect(states.count > 20)
    for sequence in states {
      for (during, after) in zip(sequence.during, sequence.after) {
        #expect(!after.isEmpty && after.isSubset(of: during), "\(sequence.calls)")
      }
    }
    // What scripts/disk-rules.sh asks for.
    guard let path = ProcessInfo.processInfo.environment["PROTECTFS_DISK_RULES"] else { return }
    try JSONEncoder().encode(states).write(to: URL(fileURLWithPath: path))
  }

  private func states(_ calls: String...) throws -> CallSequence.States { try CallSequence(calls: calls).states() }

  /// What was made durable is all that is found.
  @Test func whatIsDurableStays() throws {
    let after = try states("write a 0 50 n", "fsync a").after
    #expect(after == [["a: o*100\nbig: o*10000", "a: n*50,o*50\nbig: o*10000"], ["a: n*50,o*50\nbig: o*10000"]])
  }

  /// The zeros behind a new end are written like other contents, and the new length by itself.
  @Test func aCutWithinAPageIsTwoChanges() throws {
    let after = try states("truncate a 30").after
    #expect(after == [Set(["o*100", "o*30,0*70", "o*30"].map { "a: \($0)\nbig: o*10000" })])
    #expect(try states("truncate big 8192").after == [["a: o*100\nbig: o*10000", "a: o*100\nbig: o*8192"]])
  }

  /// A write beyond the end becomes durable page by page, and so does the length.
  @Test func aFileGrowsByPages() throws {
    let found = try #require(states("write a 100 8192 n").after.first)
    for (length, contents) in [(4096, "o*100,n*3996"), (8192, "o*100,n*8092"), (8292, "o*100,n*8192")] {
      #expect(found.contains("a: \(contents)\nbig: o*10000"), "\(length)")
    }
    // Contents that are missing are zero.
    #expect(found.contains("a: o*100,0*3996\nbig: o*10000"))
  }
}
