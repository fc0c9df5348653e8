import DataProtection
import Foundation
import GRDB
import Mounting
import ProtectedDatabase
import Testing

/// Databases that this process opens in a class, itself.
@Suite(.serialized, .enabled(if: Obstacle.found == nil, Obstacle.found))
struct OpeningTests {
  private static let wal: Configuration = {
    var configuration = Configuration()
    configuration.journalMode = .wal
    return configuration
  }()

  private static let classes: [FileProtectionType] = [
    .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication, .completeWhenUserInactive,
  ]

  /// All files of a database are in its class, and only classes that open files keep have a `-shm` file.
  @Test func filesAndModes() async throws {
    try await Volume.with { volume in
      for protection in Self.classes {
        let url = volume.url("\(protection.rawValue)/database.sqlite")
        let queue = try DatabaseQueue(protectedAt: url, protection: protection, configuration: Self.wal)
        try queue.write { db in try db.execute(sql: "CREATE TABLE t (a)") }
        let isTaken = protection == .complete || protection == .completeWhenUserInactive
        #expect(try Self.text("PRAGMA locking_mode", queue) == (isTaken ? "exclusive" : "normal"), "\(protection)")
        #expect(try Self.text("PRAGMA temp_store", queue) == "2", "temporary files are in no class")
        let files = try FileManager.default.contentsOfDirectory(atPath: url.deletingLastPathComponent().path)
        #expect(files.contains("database.sqlite-wal"))
        #expect(files.contains("database.sqlite-shm") == !isTaken, "\(protection)")
        for file in files {
          let attributes = try FileManager.default.attributesOfItem(
            atPath: url.deletingLastPathComponent().appendingPathComponent(file).path)
          #expect((attributes[.protectionKey] as? FileProtectionType)?.rawValue == protection.rawValue, "\(file)")
        }
      }
    }
  }

  /// A database that was in WAL mode before is found to be, and one with a rollback journal is left to others too.
  @Test func existingDatabases() async throws {
    try await Volume.with { volume in
      let url = volume.url("folder/database.sqlite")
      let first = try DatabaseQueue(protectedAt: url, protection: .complete)
      try first.write { db in try db.execute(sql: "CREATE TABLE t (a)") }
      try first.close()
      #expect(try Self.text("PRAGMA locking_mode", DatabaseQueue(protectedAt: url, protection: .complete)) == "normal")
      try DatabaseQueue(protectedAt: url, protection: .completeUnlessOpen, configuration: Self.wal).close()
      #expect(try FileManager.default.protection(ofItemAt: url) == .completeUnlessOpen)
      let queue = try DatabaseQueue(protectedAt: url, protection: .complete)
      #expect(try Self.text("PRAGMA journal_mode", queue) == "wal")
      #expect(try Self.text("PRAGMA locking_mode", queue) == "exclusive")
      #expect(try FileManager.default.protection(ofItemAt: url) == .complete)
    }
  }

  /// A database of A or B cannot be opened while locked; a new one of B can be made and used.
  @Test func whileLocked() async throws {
    try await Volume.with { volume in
      for protection in Self.classes {
        let url = volume.url("\(protection.rawValue)/database.sqlite")
        try DatabaseQueue(protectedAt: url, protection: protection, configuration: Self.wal).close()
      }
      try volume.lock()
      for protection in [FileProtectionType.complete, .completeUnlessOpen] {
        let url = volume.url("\(protection.rawValue)/database.sqlite")
        let error = #expect(throws: CocoaError.self) { try DatabaseQueue(protectedAt: url, protection: protection) }
        #expect(error?.code == .fileReadNoPermission)
        let reason = error.flatMap { ProtectedDataError(diagnosing: $0)?.reason }
        #expect(reason == ProtectionClass(protection).map { .locked($0, until: .unlock) })
        // What SQLite says of itself.
        let plain = #expect(throws: DatabaseError.self) { try DatabaseQueue(path: url.path) }
        #expect(plain?.resultCode == .SQLITE_CANTOPEN)
      }
      for protection in [FileProtectionType.completeUntilFirstUserAuthentication, .completeWhenUserInactive] {
        let url = volume.url("\(protection.rawValue)/database.sqlite")
        #expect(throws: Never.self) { try DatabaseQueue(protectedAt: url, protection: protection) }
      }

      let new = volume.url("new/\(FileProtectionType.complete.rawValue).sqlite")
      let error = #expect(throws: DatabaseError.self) { try DatabaseQueue(protectedAt: new, protection: .complete) }
      #expect(error?.resultCode == .SQLITE_CANTOPEN)
      let open = volume.url("new/open.sqlite")
      let queue = try DatabaseQueue(protectedAt: open, protection: .completeUnlessOpen, configuration: Self.wal)
      try queue.write { db in try db.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (7)") }
      try queue.close()
      try volume.unlock()
      #expect(try Self.text("SELECT a FROM t", DatabaseQueue(path: open.path)) == "7")
    }
  }

  /// Class C before the first unlock.
  @Test func beforeTheFirstUnlock() async throws {
    try await Volume.with { volume in
      let url = volume.url("folder/database.sqlite")
      let protection = FileProtectionType.completeUntilFirstUserAuthentication
      try DatabaseQueue(protectedAt: url, protection: protection, configuration: Self.wal).close()
      try volume.crash()
      try volume.mount()
      let error = #expect(throws: CocoaError.self) { try DatabaseQueue(protectedAt: url, protection: protection) }
      #expect(error?.code == .fileReadNoPermission)
      let plain = #expect(throws: DatabaseError.self) { try DatabaseQueue(path: url.path) }
      #expect(plain?.resultCode == .SQLITE_CANTOPEN)
      try volume.unlock()
      #expect(throws: Never.self) { try DatabaseQueue(protectedAt: url, protection: protection) }
    }
  }

  /// Why a configuration of one's own must not read the database.
  @Test func readTooEarly() async throws {
    try await Volume.with { volume in
      let url = volume.url("folder/database.sqlite")
      try DatabaseQueue(protectedAt: url, protection: .complete, configuration: Self.wal).close()
      var configuration = Self.wal
      configuration.prepareDatabase { db in try db.execute(sql: "SELECT * FROM sqlite_master") }
      let queue = try DatabaseQueue(protectedAt: url, protection: .complete, configuration: configuration)
      #expect(FileManager.default.fileExists(atPath: url.path + "-shm"))
      try queue.close()
    }
  }

  /// SQLite answers from its own memory what it has read, until it is told to forget it: that is no matter of files.
  @Test func whatSQLiteKeeps() async throws {
    try await Volume.with { volume in
      let url = volume.url("folder/database.sqlite")
      let queue = try DatabaseQueue(protectedAt: url, protection: .complete, configuration: Self.wal)
      try queue.write { db in try db.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (7)") }
      try volume.lock()
      #expect(try Self.text("SELECT a FROM t", queue) == "7", "from SQLite's own memory")
      queue.releaseMemory()
      let error = #expect(throws: DatabaseError.self) { try Self.text("SELECT a FROM t", queue) }
      #expect(error?.extendedResultCode == .SQLITE_IOERR_READ)
      try volume.unlock()
      #expect(try Self.text("SELECT a FROM t", queue) == "7")
    }
  }

  // MARK: Pools

  @Test func poolsAreRefusedWhereTheyWouldBeEnded() async throws {
    try await Volume.with { volume in
      for protection in [FileProtectionType.complete, .completeWhenUserInactive] {
        let url = volume.url("folder/database.sqlite")
        let error = #expect(throws: UnsuitableProtection.self) {
          try DatabasePool(protectedAt: url, protection: protection)
        }
        #expect(error?.protection.rawValue == protection.rawValue)
        #expect(!FileManager.default.fileExists(atPath: url.deletingLastPathComponent().path))
      }
    }
  }

  /// A pool of class B reads while locked with the connections that it has, and cannot open more.
  @Test func readersOfAPool() async throws {
    try await Volume.with { volume in
      let url = volume.url("folder/database.sqlite")
      let pool = try DatabasePool(protectedAt: url, protection: .completeUnlessOpen)
      try await pool.write { db in try db.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (7)") }
      try volume.lock()
      let error = #expect(throws: DatabaseError.self) { try pool.read { db in try db.execute(sql: "SELECT 1") } }
      #expect(error?.resultCode == .SQLITE_CANTOPEN)
      #expect(throws: DatabaseError.self) { try pool.openReaders() }
      try volume.unlock()

      try pool.openReaders()
      try volume.lock()
      // As many reads at a time as there are connections.
      let readings = pool.configuration.maximumReaderCount
      let sums = try await withThrowingTaskGroup(of: Int?.self) { group in
        for _ in 0..<readings {
          group.addTask { try await pool.read { db in try Int.fetchOne(db, sql: "SELECT sum(a) FROM t") } }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(sums == Array(repeating: 7, count: readings))
      try await pool.write { db in try db.execute(sql: "INSERT INTO t VALUES (1)") }
      #expect(try await pool.read { db in try Int.fetchOne(db, sql: "SELECT sum(a) FROM t") } == 8)
      try volume.unlock()
      try pool.close()
      #expect(try Self.text("SELECT sum(a) FROM t", DatabaseQueue(path: url.path)) == "8")
    }
  }

  /// A pool of class C opens connections in every state after the first unlock.
  @Test func readersOfClassC() async throws {
    try await Volume.with { volume in
      let pool = try DatabasePool(
        protectedAt: volume.url("folder/database.sqlite"), protection: .completeUntilFirstUserAuthentication)
      try volume.lock()
      try pool.openReaders()
      #expect(try await pool.read { db in try Int.fetchOne(db, sql: "SELECT 7") } == 7)
    }
  }

  private static func text(_ sql: String, _ queue: DatabaseQueue) throws -> String? {
    try queue.inDatabase { db in try String.fetchOne(db, sql: sql) }
  }
}
