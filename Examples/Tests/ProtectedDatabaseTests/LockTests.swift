import DataProtection
import Foundation
import Mounting
import Testing

/// What a lock does to a database that is open, class by class and journal by journal.
///
/// Whatever the program is told, the database is whole afterwards: `DatabaseProgram.checkAfterwards`.
@Suite(.serialized, .enabled(if: Obstacle.found == nil, Obstacle.found))
struct LockTests {
  /// Without a grace period the lock comes in the middle of things.
  @Test func withoutAGracePeriod() async throws {
    try await Volume.with { volume in
      for lockCase in LockCase.all {
        let program = try lockCase.begin(volume, lockCase.name)
        try volume.lock()
        let underway = lockCase.finish(program)
        let isUsed = lockCase.moment != .asleep
        let (reading, writing) = isUsed ? (program.read(), program.commit()) : (nil, nil)
        try volume.unlock()
        let outcome = LockOutcome(underway, reading, writing, program.read(), program.commit())
        #expect(outcome == lockCase.expected, "\(lockCase.name)")
        try program.checkAfterwards("\(lockCase.name)")
      }
    }
  }

  /// What is under way when a lock is announced can be finished while its grace period runs.
  @Test func inTheGracePeriod() async throws {
    try await Volume.with { volume in
      for lockCase in LockCase.all where lockCase.moment != .asleep {
        let program = try lockCase.begin(volume, lockCase.name)
        try volume.announceLock(gracePeriod: .seconds(120))
        #expect(try volume.state == .gracePeriod)
        #expect(lockCase.finish(program) ?? "ok" == "ok", "\(lockCase.name)")
        #expect(program.commit() == "ok" && program.read() == "ok", "\(lockCase.name)")
        // A shorter period takes the place of one that runs.
        try volume.lock()
        let idle = LockCase(protectionClass: lockCase.protectionClass, journal: lockCase.journal, moment: .idle)
        let (reading, writing) = (program.read(), program.commit())
        try volume.unlock()
        let outcome = LockOutcome(nil, reading, writing, program.read(), program.commit())
        #expect(outcome == idle.expected, "\(lockCase.name)")
        try program.checkAfterwards("\(lockCase.name)")
      }
    }
  }

  /// A program that commits as fast as it can, until the grace period is over. Which call fails is a matter of timing.
  @Test(arguments: Journal.allCases)
  func whileCommitting(_ journal: Journal) async throws {
    try await Volume.with { volume in
      for round in 0..<5 {
        let program = try DatabaseProgram(volume, "\(round)", .complete, journal)
        program.beginStream(1_000_000)
        try program.awaitFirstCommit()
        try volume.lock(gracePeriod: .milliseconds(100 + 37 * round))
        let ending = try program.endOfStream()
        #expect(StreamEnding.allowed(journal).contains(ending), "\(journal): \(ending)")
        #expect(!program.acknowledged.isEmpty)
        try volume.unlock()
        try program.checkAfterwards("\(journal), round \(round)")
      }
    }
  }

  /// Classes whose open files a lock leaves alone: nothing is noticed.
  @Test(arguments: Journal.allCases)
  func whileCommittingUndisturbed(_ journal: Journal) async throws {
    try await Volume.with { volume in
      for protection in [FileProtectionType.completeUnlessOpen, .completeUntilFirstUserAuthentication] {
        let program = try DatabaseProgram(volume, protection.rawValue, protection, journal)
        program.beginStream(150)
        for _ in 0..<3 {
          try volume.lock()
          try volume.unlock()
        }
        #expect(try program.endOfStream() == "ok")
        #expect(program.acknowledged.count == 150)
        try program.checkAfterwards("\(protection), \(journal)")
      }
    }
  }
}

/// What may end a stream of commits to a database of class `complete`.
enum StreamEnding {
  static func allowed(_ journal: Journal) -> Set<String> {
    switch journal {
    case .wal: ["SIGBUS", "778"]
    case .exclusive: ["778", "266"]
    // Of a journal that cannot be made SQLite says that the directory is read-only: 1544. One that cannot be removed
    // (2570) has the transaction rolled back.
    case .delete: ["778", "266", "1544", "2570"]
    }
  }
}
