import ProtectfsIO
import SystemPackage
import Testing

/// The order of locks in ARCHITECTURE.md is that of the code.
@Suite struct LockTableTests {
  /// A line of the table: a rank, a name, and what a thread may do under the lock.
  private struct Row: Equatable {
    let rank, name, allows: String

    init?(_ line: Substring) {
      let cells = line.split(separator: "|").map { $0.split(separator: " ").joined(separator: " ") }
      guard cells.count == 4, UInt8(cells[0]) != nil else { return nil }
      (rank, name, allows) = (cells[0], cells[1], cells[3])
    }

    init(_ lock: LockRank) {
      rank = "\(lock.rawValue)"
      name = "`\(lock)`"
      allows = lock >= .firstLeaf ? "nothing" : lock >= .firstWithoutSystemCalls ? "locks" : "system calls"
    }
  }

  @Test func theDocumentHasTheTableOfTheCode() throws {
    let path = #filePath.replacing(
      "Tests/ProtectfsIOTests/LockTableTests.swift", with: "Documentation/ARCHITECTURE.md")
    let bytes = try Descriptor.open(PathName(path), [.readOnly]).readAll(limit: 1 << 20)
    let chapters = String(decoding: bytes, as: UTF8.self).split(separator: "\n## ")
    let chapter = try #require(chapters.first { $0.hasPrefix("Lock order\n") })
    #expect(chapter.split(separator: "\n").compactMap(Row.init) == LockRank.allCases.map(Row.init))
  }

  /// The check keeps the ranks of a thread in one word.
  @Test func thereAreNoMoreThan64() {
    #expect(LockRank.allCases.map(\.rawValue) == Array(0..<UInt8(LockRank.allCases.count)))
    #expect(LockRank.allCases.count <= 64)
  }
}
