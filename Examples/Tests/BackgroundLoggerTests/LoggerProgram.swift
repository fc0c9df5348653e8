import DataProtection
import Foundation
import Mounting
import Testing

/// The program `LoggerTool`, and what it has said.
final class LoggerProgram {
  private let program: Program
  /// The messages of records that it said to have written.
  private(set) var logged: [String] = []
  /// How often it said that it has merged.
  private(set) var merges = 0

  init(_ directory: URL) throws {
    program = try Program(Program.beside("LoggerTool"), [directory.path])
  }

  /// Has it log a message, and waits until it has.
  func log(_ message: String) throws {
    let count = logged.count
    program.tell(message)
    while logged.count == count { try hear(program.answer()) }
    #expect(logged.last == message)
  }

  /// Has it log messages, and does not wait.
  func send(_ messages: [String]) { program.tell(messages.joined(separator: "\n")) }

  /// Listens to it until it has merged so often.
  func waitForMerges(_ count: Int) throws {
    while merges < count { try hear(program.answer()) }
  }

  /// Kills it, and hears what it had still to say.
  func kill() {
    program.kill()
    for line in program.finish() { try? hear(line) }
  }

  /// Ends it as one that has nothing more to log.
  func finish() throws {
    for line in program.finish() { try hear(line) }
    #expect(program.ending == .exited(0))
  }

  private func hear(_ line: String) throws {
    let words = line.split(separator: " ", maxSplits: 2).map(String.init)
    switch words.first {
    case "logged": logged.append(words[2])
    case "merged": merges += 1
    // A lock may overtake a merge.
    case "not": break
    default: try #require(Bool(false), "it said: \(line)")
    }
  }
}
