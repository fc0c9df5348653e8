import DataProtection
import Foundation
import Testing

/// Documentation/DATABASES.md says what `LockTests` finds.
@Suite struct DocumentationTests {
  private static let document = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().appendingPathComponent("../../../Documentation/DATABASES.md").standardizedFileURL

  @Test func theTableIsWhatIsMeasured() throws {
    let text = try String(contentsOf: Self.document, encoding: .utf8)
    let table = Self.header + LockCase.all.map(Self.line)
    #expect(text.contains(table.joined(separator: "\n") + "\n\n"), "\n\(table.joined(separator: "\n"))")
  }

  private static let header = [
    "| "
      + [
        "class", "journal", "when the lock comes", "what was under way", "read, locked", "write, locked",
        "read, unlocked again", "write, unlocked again",
      ].joined(separator: " | ") + " |",
    String(repeating: "|---", count: 8) + "|",
  ]

  private static func line(_ lockCase: LockCase) -> String {
    let outcome = lockCase.expected
    let cells =
      [lockCase.protectionClass.letter, lockCase.journal.title, lockCase.moment.title]
      + [outcome.underway, outcome.reading, outcome.writing, outcome.readingAgain, outcome.writingAgain].map(word)
    return "| " + cells.joined(separator: " | ") + " |"
  }

  private static func word(_ result: String?) -> String {
    switch result {
    case nil: "–"
    case "266": "IOERR_READ"
    case "778": "IOERR_WRITE"
    case "14": "CANTOPEN"
    case let result?: result
    }
  }
}
