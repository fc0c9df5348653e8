import FoundationEssentials
import ProtectfsClient
import ProtectfsPolicy

extension FileManager {
  /// Prepares a folder for a database of a class, as `NSPersistentStoreFileProtectionKey` does for Core Data.
  ///
  /// Files that a database creates later (`-wal`, `-shm`, `-journal`) take the class of their folder. Therefore the
  /// folder gets the class, and so do existing files of the database. The folder should contain only this database.
  /// Open the database after this call, at the same path.
  ///
  /// A database of class ``ProtectionClass/complete`` in WAL mode should be opened with `PRAGMA
  /// locking_mode=EXCLUSIVE`: SQLite then maps no `-shm` file, whose pages a lock removes.
  /// - Parameters:
  ///   - url: the database's main file, which need not exist.
  ///   - protection: its class.
  /// - Throws: as ``setProtection(_:ofItemAt:)``.
  public func prepareDatabase(at url: URL, protection: FileProtectionType) throws {
    let folder = url.deletingLastPathComponent()
    try createDirectory(at: folder, withIntermediateDirectories: true, attributes: [.protectionKey: protection])
    try setProtection(protection, ofItemAt: folder)
    for suffix in ["", "-wal", "-shm", "-journal"] {
      let file = folder.appendingPathComponent(url.lastPathComponent + suffix)
      guard fileExists(atPath: try Self.path(of: file)) else { continue }
      if try self.protection(ofItemAt: file) != protection { try setProtection(protection, ofItemAt: file) }
    }
  }
}
