import DataProtection
import Foundation
import Mounting
import Testing

@testable import BackgroundLogger

/// A log that is written while locked and read while unlocked.
@Suite(.serialized, .enabled(if: Obstacle.found == nil, Obstacle.found))
struct BackgroundLoggerTests {
  /// Programs log while locked, one of them begun while locked, and merge when they hear of the unlock.
  @Test func writtenWhileLocked() async throws {
    try await Volume.with { volume in
      let directory = volume.url("log")
      let first = try LoggerProgram(directory)
      for number in 0..<3 { try first.log("first \(number)") }
      try first.waitForMerges(1)
      try volume.lock()
      for number in 3..<6 { try first.log("first \(number)") }
      let second = try LoggerProgram(directory)
      for number in 0..<4 { try second.log("second \(number)") }

      let logger = try BackgroundLogger(directory: directory)
      Self.expectLocked { _ = try logger.records() }
      try Self.expectClass(.completeUnlessOpen, below: directory.appendingPathComponent("inbox"))

      let merges = first.merges
      try volume.unlock()
      try first.waitForMerges(merges + 1)
      try second.waitForMerges(1)
      let messages = try logger.records().map(\.message)
      #expect(messages.filter { $0.hasPrefix("first") } == (0..<6).map { "first \($0)" })
      #expect(messages.filter { $0.hasPrefix("second") } == (0..<4).map { "second \($0)" })
      #expect(messages.count == 10)
      #expect(try Self.inbox(directory).isEmpty)
      try Self.expectClass(.complete, below: directory.appendingPathComponent("store"))

      // And again.
      try volume.lock()
      Self.expectLocked { _ = try logger.records() }
      try first.log("first 6")
      try volume.unlock()
      try first.waitForMerges(merges + 2)
      #expect(try logger.records().last?.message == "first 6")
      try first.finish()
      try second.finish()
    }
  }

  /// Nothing is lost by a merge that a lock refuses; sessions are merged in the order in which they began.
  @Test func mergedLater() async throws {
    try await Volume.with { volume in
      let logger = try BackgroundLogger(directory: volume.url("log"))
      try volume.lock()
      var expected: [LogRecord] = []
      for number in 0..<5 {
        expected.append(try logger.append("\(number)"))
        Self.expectLocked { try logger.merge() }
        usleep(2000)
      }
      #expect(try Self.inbox(volume.url("log")).count == 5, "each refused merge ends a session")
      try volume.unlock()
      try logger.merge()
      #expect(try logger.records().map(\.id) == expected.map(\.id))
      try logger.merge()
      #expect(try logger.records().count == 5)
    }
  }

  /// Records outlive the daemon, and logging goes on before the first unlock.
  @Test func daemonStartedAnew() async throws {
    try await Volume.with { volume in
      let logger = try BackgroundLogger(directory: volume.url("log"))
      try volume.lock()
      try logger.append("before")
      try logger.synchronize()
      try volume.crash()
      Self.expectLoss(logger)
      try volume.mount()
      #expect(try volume.state == .beforeFirstUnlock)
      try logger.append("after")
      Self.expectLocked { try logger.merge() }
      try volume.unlock()
      try logger.merge()
      #expect(try logger.records().map(\.message) == ["before", "after"])
    }
  }

  /// The kernel may still take a record; on disk it will never be.
  private static func expectLoss(_ logger: BackgroundLogger) {
    do {
      try logger.append("lost")
      try logger.synchronize()
      Issue.record("a daemon that is gone has kept a record")
    } catch {
      #expect(error is CocoaError || error is POSIXError || (error as NSError).domain == NSPOSIXErrorDomain, "\(error)")
    }
  }

  private static func expectLocked(_ body: () throws -> Void) {
    do {
      try body()
      Issue.record("it is not locked")
    } catch {
      #expect((error as? CocoaError)?.code == .fileReadNoPermission, "\(error)")
    }
  }

  private static func inbox(_ directory: URL) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: directory.appendingPathComponent("inbox").path)
  }

  private static func expectClass(_ protectionClass: ProtectionClass, below directory: URL) throws {
    let files = try FileManager.default.contentsOfDirectory(atPath: directory.path)
    #expect(!files.isEmpty)
    for file in files {
      let protection = try FileManager.default.protection(ofItemAt: directory.appendingPathComponent(file))
      #expect(ProtectionClass(protection) == protectionClass, "\(file)")
    }
  }
}
