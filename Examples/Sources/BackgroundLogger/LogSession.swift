import DataProtection
import Foundation
import Glibc

/// A file of records that is being written, of class B.
///
/// While locked a file of class `completeUnlessOpen` can be made and written, but not opened again. So there is a new
/// file for each session of writing, and it stays open for as long as the session lasts.
final class LogSession {
  /// How a session's file is called: in the order in which sessions began.
  static let fileExtension = "session"

  private let id = UUID()
  private let file: FileHandle
  private var count = 0

  /// Makes a file in a directory of class `completeUnlessOpen`, whose class it takes.
  init(in directory: URL) throws {
    let milliseconds = Int64(Date.now.timeIntervalSince1970 * 1000)
    let url = directory.appendingPathComponent("\(milliseconds)-\(id.uuidString).\(Self.fileExtension)")
    let newURL = url.appendingPathExtension("new")
    let path = newURL.path(percentEncoded: false)
    // Foundation makes a file and opens it afterwards, which cannot be done while locked.
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      throw CocoaError(
        errno == EACCES ? .fileWriteNoPermission : .fileWriteUnknown, userInfo: [NSFilePathErrorKey: path])
    }
    file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    // Whoever merges leaves a session alone that is held so. The hold goes with its process, and is there before the
    // name by which sessions are found.
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { throw CocoaError(.fileLocking) }
    try FileManager.default.moveItem(at: newURL, to: url)
  }

  /// Appends a record, by one write(2): a program that is killed leaves whole records.
  func append(_ message: String) throws -> LogRecord {
    let record = LogRecord(id: LogRecord.ID(session: id, number: count), date: .now, message: message)
    try file.write(contentsOf: LogLines.line(record))
    count += 1
    return record
  }

  /// Has what was written outlive a crash of the machine.
  func synchronize() throws { try file.synchronize() }

  /// Ends the session.
  func close() throws { try file.close() }
}
