import ArgumentParser
import ProtectfsIO

/// What the argument parser does not say of arguments that it refuses: which subcommand was meant, and that options
/// follow it.
enum UsageHint {
  /// The parser's message for arguments, with the hint where there is one.
  static func message(_ message: String, for arguments: [String]) -> String {
    guard let hint = hint(for: arguments) else { return message }
    // Below the first line is the usage.
    return (["Error: \(hint)"] + message.split(separator: "\n").dropFirst().map(String.init)).joined(separator: "\n")
  }

  /// The hint; `nil` where the arguments lead to a command that reads the rest itself.
  static func hint(for arguments: [String]) -> String? {
    var (path, command, rest) = (Path(), ProtectFS.self as any ParsableCommand.Type, arguments[...])
    path.follow(&rest, from: &command)
    guard !command.configuration.subcommands.isEmpty, let argument = rest.first else { return nil }
    if !argument.hasPrefix("-") {
      let near = nearest(to: argument, below: command)
      return near.map { "Unexpected argument '\(argument.printable)'. Did you mean '\($0)'?" }
    }
    guard let start = rest.firstIndex(where: { subcommand($0, of: command) != nil }) else { return nil }
    let options = rest[..<start]
    rest = rest[start...]
    path.follow(&rest, from: &command)
    let words = path.words + (options + rest).map(\.shellQuoted)
    return "Unknown option '\(argument.printable)'. Options go behind the subcommand: \(words.joined(separator: " "))"
  }

  /// The words that name a command.
  private struct Path {
    private(set) var words = ["protectfs"]

    /// Takes the first words as long as they name subcommands.
    mutating func follow(_ rest: inout ArraySlice<String>, from command: inout any ParsableCommand.Type) {
      while let word = rest.first, let below = subcommand(word, of: command) {
        command = below
        words.append(word)
        rest.removeFirst()
      }
    }
  }

  private static func subcommand(
    _ name: String, of command: any ParsableCommand.Type
  ) -> (any ParsableCommand.Type)? {
    command.configuration.subcommands.first { $0.names.contains(name) }
  }

  /// The subcommand whose name is most like a word, if one is much like it.
  private static func nearest(to word: String, below command: any ParsableCommand.Type) -> String? {
    let names = command.configuration.subcommands.flatMap { $0.names }
    if let longer = names.first(where: { word.count > 1 && $0.hasPrefix(word) }) { return longer }
    let near = names.map { (name: $0, distance: word.typos(to: $0)) }.min { $0.distance < $1.distance }
    guard let near, near.distance <= min(word.count - 1, max(2, word.count / 3)) else { return nil }
    return near.name
  }
}

extension ParsableCommand {
  /// Its name and aliases.
  fileprivate static var names: [String] { [configuration.commandName].compactMap(\.self) + configuration.aliases }
}

extension String {
  /// How many letters have to be added, left out, exchanged or swapped with their neighbours to get another word:
  /// the optimal string alignment distance.
  func typos(to other: String) -> Int {
    let (own, other) = (Array(self), Array(other))
    var rows = [Array(0...other.count)]
    for (i, letter) in own.enumerated() {
      var row = [i + 1]
      for (j, wanted) in other.enumerated() {
        var least = Swift.min(rows[i][j] + (letter == wanted ? 0 : 1), rows[i][j + 1] + 1, row[j] + 1)
        if i > 0, j > 0, letter == other[j - 1], own[i - 1] == wanted {
          least = Swift.min(least, rows[i - 1][j - 1] + 1)
        }
        row.append(least)
      }
      rows.append(row)
    }
    return rows[own.count][other.count]
  }
}
