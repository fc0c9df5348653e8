import DataProtection
import Foundation
import Mounting
import Testing

@testable import BackgroundLogger

/// A logger that is killed: each record is merged once, whatever was under way.
@Suite(.serialized, .enabled(if: Obstacle.found == nil, Obstacle.found))
struct CrashTests {
  /// Killed while it writes, while locked.
  @Test func whileWriting() async throws {
    try await Volume.with { volume in
      let directory = volume.url("log")
      var expected: [[String]] = []
      for round in 0..<6 {
        let program = try LoggerProgram(directory)
        let messages = (0..<1000).map { "\(round) \($0)" }
        try program.log(messages[0])
        try volume.lock()
        try program.log(messages[1])
        program.send(Array(messages[2...]))
        usleep(UInt32(1000 * round))
        program.kill()
        #expect(program.logged == Array(messages[..<program.logged.count]))
        expected.append(program.logged)
        try volume.unlock()
      }
      let logger = try BackgroundLogger(directory: directory)
      try logger.merge()
      let merged = try logger.records().map(\.message)
      for (round, logged) in expected.enumerated() {
        let messages = merged.filter { $0.hasPrefix("\(round) ") }
        #expect(messages.starts(with: logged), "round \(round): what was acknowledged is there, in order")
        // One more may have been written, of which it had not said so.
        #expect(messages == (0..<messages.count).map { "\(round) \($0)" } && messages.count <= logged.count + 1)
      }
      #expect(Set(merged).count == merged.count)
    }
  }

  /// Killed while it merges, at any moment.
  @Test func whileMerging() async throws {
    try await Volume.with { volume in
      let directory = volume.url("log")
      let expected = try Self.fill(directory, sessions: 20, records: 100)
      let left = directory.appendingPathComponent("store/.of a killed write.staging/log.jsonl")
      try FileManager.default.createDirectory(at: left.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data("half".utf8).write(to: left)
      var merges = 0
      for round in 0..<12 {
        let program = try LoggerProgram(directory)
        // It begins to merge by itself, as it finds the mount unlocked.
        usleep(UInt32(6000 * round))
        program.kill()
        merges += program.merges
      }
      let logger = try BackgroundLogger(directory: directory)
      try logger.merge()
      #expect(try logger.records().map(\.id) == expected)
      for (folder, files) in [("inbox", []), ("store", ["log.jsonl"])] {
        let found = try FileManager.default.contentsOfDirectory(atPath: directory.appendingPathComponent(folder).path)
        #expect(found == files, "\(folder)")
      }
      #expect(merges < 12, "it was always killed too late")
    }
  }

  /// The very moment between the merge and the removal.
  @Test func betweenMergeAndRemoval() async throws {
    try await Volume.with { volume in
      let directory = volume.url("log")
      let expected = try Self.fill(directory, sessions: 3, records: 10)
      let inbox = try LogInbox(directory: directory.appendingPathComponent("inbox"))
      let store = try LogStore(directory: directory.appendingPathComponent("store"))
      let contents = try inbox.contents()
      try store.add(contents.records)
      try FileManager.default.removeItem(at: contents.files[1])
      // Here it ends; and another takes up what is left.
      let logger = try BackgroundLogger(directory: directory)
      #expect(try logger.records().map(\.id) == expected)
      let later = try logger.append("later")
      try logger.merge()
      #expect(try logger.records().map(\.id) == expected + [later.id])
      #expect(try inbox.contents().files.isEmpty)
    }
  }

  /// A session that a crash of the machine has cut off: its whole records are merged.
  @Test func cutOff() async throws {
    try await Volume.with { volume in
      let directory = volume.url("log")
      let expected = try Self.fill(directory, sessions: 1, records: 3)
      let inbox = directory.appendingPathComponent("inbox")
      let file = inbox.appendingPathComponent(try FileManager.default.contentsOfDirectory(atPath: inbox.path)[0])
      let handle = try FileHandle(forUpdating: file)
      try handle.truncate(atOffset: handle.seekToEnd() - 5)
      try handle.close()
      let logger = try BackgroundLogger(directory: directory)
      try logger.merge()
      #expect(try logger.records().map(\.id) == Array(expected[..<2]))
    }
  }

  /// Sessions that have ended; the identities of their records, in order.
  private static func fill(_ directory: URL, sessions: Int, records: Int) throws -> [LogRecord.ID] {
    try (0..<sessions).flatMap { session in
      let logger = try BackgroundLogger(directory: directory)
      defer { usleep(2000) }
      return try (0..<records).map { try logger.append("session \(session), record \($0)").id }
    }
  }
}
