// A program with a database, which does what it is told, a line for a line: so a test can look on from outside while a
// lock comes, and this one may be ended by it.
//
//   DatabaseWriter PATH CLASS JOURNAL
import CPausingStorage
import Foundation

guard CommandLine.arguments.count == 4, let journal = Journal(rawValue: CommandLine.arguments[3]) else {
  FileHandle.standardError.write(Data("usage: DatabaseWriter PATH CLASS JOURNAL\n".utf8))
  exit(64)
}

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

guard pausing_install() == 0 else { exit(70) }
do {
  let entries = try Entries(
    at: URL(fileURLWithPath: CommandLine.arguments[1]),
    protection: FileProtectionType(rawValue: CommandLine.arguments[2]), journal)
  say("ok")
  // Whoever asks waits for the answer, so a line comes alone.
  while let line = String(data: FileHandle.standardInput.availableData, encoding: .utf8), !line.isEmpty {
    say(describing { try entries.perform(line.trimmingCharacters(in: .newlines)) })
  }
} catch {
  say(describe(error))
}
