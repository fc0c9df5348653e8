import DataProtection
import Foundation

/// The merged log, of class A: one file of lines, replaced as a whole.
struct LogStore {
  let file: URL

  init(directory: URL) throws {
    file = directory.appendingPathComponent("log.jsonl")
    try FileManager.default.createDirectory(
      at: directory, withIntermediateDirectories: true, attributes: [.protectionKey: FileProtectionType.complete])
  }

  /// All records, in order.
  ///
  /// - Throws: `CocoaError.fileReadNoPermission` while locked.
  func records() throws -> [LogRecord] { LogLines.records(try data()) }

  /// Removes what writes have left that were killed: `write(to:options:)` makes a file in a directory beside it. To be
  /// called by one program at a time, which is the one that writes.
  func removeLeftovers() throws {
    let directory = file.deletingLastPathComponent()
    for name in try FileManager.default.contentsOfDirectory(atPath: directory.path(percentEncoded: false))
    where name.hasPrefix(".") && name.hasSuffix(".staging") {
      try FileManager.default.removeItem(at: directory.appendingPathComponent(name))
    }
  }

  /// Adds records that are not there yet. On return they are on disk.
  func add(_ records: [LogRecord]) throws {
    let data = try data()
    var known = Set(LogLines.records(data).map(\.id))
    let new = records.filter { known.insert($0.id).inserted }
    guard !new.isEmpty else { return }
    let lines = try new.reduce(into: data) { try $0.append(LogLines.line($1)) }
    try lines.write(to: file, options: [.atomic, .completeFileProtection])
  }

  private func data() throws -> Data {
    do {
      return try Data(contentsOf: file)
    } catch CocoaError.fileReadNoSuchFile {
      return Data()
    }
  }
}
