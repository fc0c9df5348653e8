import Foundation

/// One line of a log.
public struct LogRecord: Codable, Hashable, Sendable, Identifiable {
  /// What tells a record from all others: the session of writing, and its number in it.
  public struct ID: Codable, Hashable, Sendable {
    /// The session of writing.
    public let session: UUID
    /// Counted from 0.
    public let number: Int
  }

  /// The record's own name.
  public let id: ID
  /// When the record was made.
  public let date: Date
  /// What there was to say.
  public let message: String
}

/// Records as lines of JSON.
enum LogLines {
  /// A record and the end of its line.
  static func line(_ record: LogRecord) throws -> Data {
    let encoder = JSONEncoder()
    encoder.dateEncodingStrategy = .millisecondsSince1970
    encoder.outputFormatting = [.sortedKeys]
    return try encoder.encode(record) + [UInt8(ascii: "\n")]
  }

  /// The records of a file. A crash may have cut off the last line, or left what no line is: it is passed over.
  static func records(_ data: Data) -> [LogRecord] {
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .millisecondsSince1970
    return data.split(separator: UInt8(ascii: "\n")).compactMap { try? decoder.decode(LogRecord.self, from: Data($0)) }
  }
}
