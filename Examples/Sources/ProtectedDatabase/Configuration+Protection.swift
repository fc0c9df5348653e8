import DataProtection
import Foundation
import GRDB

extension Configuration {
  /// Makes the database's folder ready, and returns a configuration with what its class needs.
  func prepared(forDatabaseAt url: URL, protection: FileProtectionType) throws -> Configuration {
    try FileManager.default.prepareDatabase(at: url, protection: protection)
    let isInWALMode = try JournalMode(ofDatabaseAt: url) == .wal || journalMode == .wal
    let isExclusive = isInWALMode && protection.isTakenFromOpenFiles
    var configuration = self
    configuration.prepareDatabase { db in
      try db.execute(sql: "PRAGMA temp_store = MEMORY")
      if isExclusive { try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE") }
    }
    return configuration
  }
}

extension FileProtectionType {
  /// Whether a lock takes the key from files that are open.
  var isTakenFromOpenFiles: Bool { self == .complete || self == .completeWhenUserInactive }
}
