import CPausingStorage
import DataProtection
import Foundation
import GRDB
import ProtectedDatabase

/// How a database is journalled.
enum Journal: String {
  /// `journal_mode=WAL`, with its index in a mapped `-shm` file.
  case wal
  /// `journal_mode=WAL` with `locking_mode=EXCLUSIVE`: the index is in the program's own memory.
  case exclusive
  /// `journal_mode=DELETE`
  case delete
}

/// A database of transactions, each of so many rows: one of which fewer are there is half a transaction.
struct Entries {
  static let rowsPerTransaction = 40
  private static let half = rowsPerTransaction / 2

  private let queue: DatabaseQueue

  init(at url: URL, protection: FileProtectionType, _ journal: Journal) throws {
    var configuration = Configuration()
    // A transaction lasts from one line to another.
    configuration.allowsUnsafeTransactions = true
    if journal != .delete { configuration.journalMode = .wal }
    configuration.prepareDatabase { db in
      // So few pages that SQLite writes before a commit, and reads what it has read before.
      try db.execute(sql: "PRAGMA cache_size = 10; PRAGMA wal_autocheckpoint = 0")
      if journal == .exclusive { try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE") }
    }
    if journal == .wal && protection == .complete {
      // What the example library would not do.
      try FileManager.default.prepareDatabase(at: url, protection: protection)
      queue = try DatabaseQueue(path: url.path, configuration: configuration)
    } else {
      queue = try DatabaseQueue(protectedAt: url, protection: protection, configuration: configuration)
    }
    try queue.write { db in
      try db.execute(
        sql: "CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, number INTEGER NOT NULL, data BLOB NOT NULL)")
    }
  }

  /// Does what a line says, and returns what came of it.
  func perform(_ line: String) throws -> String {
    let words = line.split(separator: " ")
    let number = words.count > 1 ? Int(words[1]) ?? 0 : 0
    switch words.first {
    case "commit":
      try begin(number)
      try finish(number)
    case "begin":
      let before = pausing_writes()
      try begin(number)
      return "ok \(pausing_writes() - before)"
    case "finish": try finish(number)
    case "read":
      return try queue.inDatabase { db in
        _ = try Int.fetchOne(db, sql: "SELECT sum(length(data)) FROM entry")
        return "ok"
      }
    case "arm": pausing_arm(Int32(number))
    case "checkpoint": _ = try queue.inDatabase { db in try db.checkpoint(.truncate) }
    case "stream":
      // So many, or until something fails.
      for number in number..<number + (words.count > 2 ? Int(words[2]) ?? 0 : 0) {
        try begin(number)
        try finish(number)
        say("committed \(number)")
      }
    default: return "what?"
    }
    return "ok"
  }

  private func begin(_ number: Int) throws {
    try undoing { db in
      try db.beginTransaction(.immediate)
      try insert(Self.half, number, db)
    }
  }

  private func finish(_ number: Int) throws {
    try undoing { db in
      try insert(Self.rowsPerTransaction - Self.half, number, db)
      try db.commit()
    }
  }

  private func insert(_ count: Int, _ number: Int, _ db: Database) throws {
    for _ in 0..<count {
      try db.execute(sql: "INSERT INTO entry (number, data) VALUES (?, randomblob(3000))", arguments: [number])
    }
  }

  /// Takes a transaction back that fails, as GRDB's `write` does.
  private func undoing(_ body: (Database) throws -> Void) throws {
    try queue.inDatabase { db in
      do {
        try body(db)
      } catch {
        if db.isInsideTransaction { try? db.rollback() }
        throw error
      }
    }
  }
}

/// What a call came to, in words.
func describing(_ body: () throws -> String) -> String {
  do { return try body() } catch { return describe(error) }
}

/// An error by its numbers.
func describe(_ error: any Error) -> String {
  switch error {
  case let error as DatabaseError: "\(error.extendedResultCode.rawValue)"
  case let error as CocoaError: "CocoaError \(error.code.rawValue)"
  default: "\(error)"
  }
}
