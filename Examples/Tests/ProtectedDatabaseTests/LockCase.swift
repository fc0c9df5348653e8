import DataProtection
import Foundation
import Mounting
import Testing

/// One line of the table: a database of a class and a journal, and what it is doing when the lock comes.
struct LockCase: CustomTestStringConvertible {
  enum Moment: String, CaseIterable {
    case asleep, idle, transaction, checkpoint

    var title: String {
      switch self {
      case .asleep: "open, not used while locked"
      case .idle: "open, used while locked"
      case .transaction: "in a transaction, pages spilled"
      case .checkpoint: "in a checkpoint"
      }
    }
  }

  let protectionClass: ProtectionClass
  let journal: Journal
  let moment: Moment

  static let all: [LockCase] = [ProtectionClass.complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication]
    .flatMap { protectionClass in
      Journal.allCases.flatMap { journal in
        Moment.allCases.filter { $0 != .checkpoint || journal != .delete }
          .map { LockCase(protectionClass: protectionClass, journal: journal, moment: $0) }
      }
    }

  var name: String { "\(protectionClass.letter)-\(journal)-\(moment)" }
  var testDescription: String { name }
  var protection: FileProtectionType { FileProtectionType(protectionClass) }

  /// Starts the program and brings it to the moment.
  func begin(_ volume: Volume, _ name: String) throws -> DatabaseProgram {
    let program = try DatabaseProgram(volume, name, protection, journal)
    for _ in 0..<3 { try #require(program.commit() == "ok") }
    switch moment {
    case .asleep: break
    case .idle: try #require(program.read() == "ok")
    case .transaction: #expect(try program.begin() > 0, "the pages all fit into the cache, and nothing was written")
    case .checkpoint: try program.beginCheckpoint()
    }
    return program
  }

  /// Has it go on with what it was at.
  func finish(_ program: DatabaseProgram) -> String? {
    switch moment {
    case .asleep, .idle: nil
    case .transaction: program.finish()
    case .checkpoint: program.finishCheckpoint()
    }
  }
}
