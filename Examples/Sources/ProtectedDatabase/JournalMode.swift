import Foundation

/// How a database's main file says that it is written: the part of SQLite's journal modes that lasts.
enum JournalMode {
  case rollback, wal

  /// Reads the mode of a database; one that is not there yet, or empty, begins with a rollback journal.
  ///
  /// Source: https://www.sqlite.org/fileformat2.html, section 1.3.3: the bytes 18 and 19 are 2 for WAL.
  init(ofDatabaseAt url: URL) throws {
    self = .rollback
    guard FileManager.default.fileExists(atPath: url.path(percentEncoded: false)) else { return }
    let file = try FileHandle(forReadingFrom: url)
    defer { try? file.close() }
    let header = try file.read(upToCount: 20) ?? Data()
    if header.count == 20, header[18] == 2, header[19] == 2 { self = .wal }
  }
}
