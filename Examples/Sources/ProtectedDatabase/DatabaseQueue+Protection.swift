import DataProtection
import Foundation
import GRDB

extension DatabaseQueue {
  /// Opens a database in a protection class, and makes it where there is none.
  ///
  /// Its folder gets the class, so that the journals that SQLite makes later have it too; see
  /// `FileManager.prepareDatabase(at:protection:)`. SQLite's temporary files stay in memory: elsewhere they would be in
  /// no class. A database in WAL mode whose class is taken from open files is opened with `locking_mode=EXCLUSIVE`:
  /// a lock then is an error that can be caught, and not the end of the program.
  /// - Parameters:
  ///   - url: the database's main file, in a folder of its own.
  ///   - protection: its class.
  ///   - configuration: as for `init(path:configuration:)`. What its `prepareDatabase` functions do must not read the
  ///     database, or SQLite maps its `-shm` file before it is told not to.
  /// - Throws: `CocoaError.fileReadNoPermission` (257) where the database is locked now,
  ///   `CocoaError.featureUnsupported` where the path is on no protectfs mount, and GRDB's `DatabaseError`.
  public convenience init(
    protectedAt url: URL, protection: FileProtectionType, configuration: Configuration = Configuration()
  ) throws {
    let configuration = try configuration.prepared(forDatabaseAt: url, protection: protection)
    try self.init(path: url.path(percentEncoded: false), configuration: configuration)
  }
}
