import DataProtection
import Foundation
import Glibc

/// The directory of sessions that are still to be merged, of class B.
struct LogInbox {
  /// The records of sessions that have ended, and the files that they are in.
  struct Contents {
    var records: [LogRecord] = []
    var files: [URL] = []
  }

  let directory: URL

  init(directory: URL) throws {
    self.directory = directory
    try FileManager.default.createDirectory(
      at: directory, withIntermediateDirectories: true,
      attributes: [.protectionKey: FileProtectionType.completeUnlessOpen])
  }

  /// Reads the sessions that nobody writes any more, in the order in which they began.
  ///
  /// - Throws: `CocoaError.fileReadNoPermission` while locked.
  func contents() throws -> Contents {
    var contents = Contents()
    for file in try sessions() {
      let handle = try FileHandle(forReadingFrom: file)
      defer { try? handle.close() }
      guard flock(handle.fileDescriptor, LOCK_SH | LOCK_NB) == 0 else { continue }
      contents.records += LogLines.records(try handle.readToEnd() ?? Data())
      contents.files.append(file)
    }
    return contents
  }

  /// Removes files whose records are elsewhere.
  func remove(_ contents: Contents) throws {
    for file in contents.files { try FileManager.default.removeItem(at: file) }
  }

  private func sessions() throws -> [URL] {
    try FileManager.default.contentsOfDirectory(atPath: directory.path(percentEncoded: false))
      .filter { $0.hasSuffix(".\(LogSession.fileExtension)") }
      .sorted()
      .map { directory.appendingPathComponent($0) }
  }
}
