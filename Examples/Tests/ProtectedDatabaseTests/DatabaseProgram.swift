import DataProtection
import Foundation
import GRDB
import Mounting
import Testing

/// How a database is journalled: the argument of `DatabaseWriter`.
enum Journal: String, CaseIterable {
  case wal, exclusive, delete

  var title: String {
    switch self {
    case .wal: "WAL"
    case .exclusive: "WAL, exclusive"
    case .delete: "DELETE"
    }
  }
}

/// A database and the program that writes it, `DatabaseWriter`.
final class DatabaseProgram {
  private let url: URL
  private let program: Program
  /// Transactions whose commit was acknowledged, in their order.
  private(set) var acknowledged: [Int] = []
  private var attempts = 0

  /// Starts the program, which makes the database in a folder of its own.
  init(_ volume: Volume, _ name: String, _ protection: FileProtectionType, _ journal: Journal) throws {
    url = volume.url(name).appendingPathComponent("entries.sqlite")
    program = try Self.start(url, protection, journal)
    let answer = program.answer()
    try #require(answer == "ok", "\(name): \(answer)")
  }

  private static func start(_ url: URL, _ protection: FileProtectionType, _ journal: Journal) throws -> Program {
    try Program(Program.beside("DatabaseWriter"), [url.path, protection.rawValue, journal.rawValue])
  }

  func read() -> String { program.ask("read") }

  /// Commits a transaction: what it was told.
  func commit() -> String {
    attempts += 1
    return noting(program.ask("commit \(attempts)"))
  }

  /// Begins a transaction, and writes as much as the cache does not hold: how many writes there were.
  func begin() throws -> Int {
    attempts += 1
    let words = program.ask("begin \(attempts)").split(separator: " ")
    try #require(words.count == 2 && words[0] == "ok", "\(words)")
    return try #require(Int(words[1]))
  }

  /// Ends what ``begin()`` began.
  func finish() -> String { noting(program.ask("finish \(attempts)")) }

  /// Begins a checkpoint that stops in the middle of its writes.
  func beginCheckpoint() throws {
    try #require(program.ask("arm 10") == "ok")
    let answer = program.ask("checkpoint")
    try #require(answer == "paused", "\(answer)")
  }

  /// Lets it go on: what came of it.
  func finishCheckpoint() -> String { program.ask("") }

  /// Has it commit so many transactions, or until something fails.
  func beginStream(_ count: Int) { program.tell("stream \(attempts + 1) \(count)") }

  /// Waits until one of them is acknowledged.
  func awaitFirstCommit() throws {
    let words = program.answer().split(separator: " ")
    try #require(words.first == "committed", "\(words)")
    acknowledged.append(try #require(Int(words[1])))
  }

  /// What the stream ended with.
  func endOfStream() throws -> String {
    while true {
      let words = program.answer().split(separator: " ")
      guard words.first == "committed", words.count == 2, let number = Int(words[1]) else {
        attempts = (acknowledged.last ?? 0) + 1
        return words.joined(separator: " ")
      }
      acknowledged.append(number)
    }
  }

  private func noting(_ answer: String) -> String {
    if answer == "ok" { acknowledged.append(attempts) }
    return answer
  }

  /// Ends the program if it still runs, opens the database anew, and checks it.
  func checkAfterwards(_ comment: Comment) throws {
    _ = program.finish()
    let queue = try DatabaseQueue(path: url.path)
    try queue.read { db in
      #expect(try String.fetchAll(db, sql: "PRAGMA integrity_check") == ["ok"], comment)
      let counts = try Row.fetchAll(db, sql: "SELECT number, count(*) AS count FROM entry GROUP BY number")
        .reduce(into: [Int: Int]()) { $0[$1["number"]] = $1["count"] }
      #expect(counts.values.allSatisfy { $0 == 40 }, "half a transaction is there: \(counts), \(comment)")
      #expect(Set(acknowledged).isSubset(of: counts.keys), "an acknowledged commit is not there, \(comment)")
      // One that was refused at its end may be there, but then the whole of it.
      #expect(counts.keys.allSatisfy { $0 <= attempts }, "\(comment)")
    }
  }
}
