import ProtectfsIO

/// A colour of terminals: the parameter of SGR in ECMA-48.
enum TerminalColour: Int {
  case red = 31
  case green, yellow
}

extension String {
  /// The text in a colour, where it is shown on a terminal whose user has not set `NO_COLOR` (no-color.org).
  func coloured(_ colour: TerminalColour) -> String {
    guard StandardStream.isOutputTerminal, (Process.environment("NO_COLOR") ?? "").isEmpty,
      Process.environment("TERM") != "dumb"
    else { return self }
    return "\u{1b}[\(colour.rawValue)m\(self)\u{1b}[0m"
  }
}

extension String {
  /// The text in lines of so many columns, broken at blanks, but at none of a command that stands between quotes, so
  /// that it can be copied. 0 columns leave it as it is.
  func wrapped(to columns: Int) -> String {
    guard columns > 0 else { return self }
    return split(separator: "\n", omittingEmptySubsequences: false).map { Self.wrapped($0, columns) }
      .joined(separator: "\n")
  }

  private static func wrapped(_ line: Substring, _ columns: Int) -> String {
    var (text, width) = ("", 0)
    for piece in pieces(line) {
      let fits = width == 0 || width + 1 + piece.count <= columns
      text += width == 0 ? piece : (fits ? " " : "\n") + piece
      width = fits && width > 0 ? width + 1 + piece.count : piece.count
    }
    return text
  }

  /// The words of a line. What stands between quotes is one.
  private static func pieces(_ line: Substring) -> [String] {
    var pieces: [String] = []
    var quoted: [Substring] = []
    for word in line.split(separator: " ", omittingEmptySubsequences: false) {
      let opens = quoted.isEmpty && word.drop { $0 == "(" }.first == "'"
      guard opens || !quoted.isEmpty else {
        pieces.append(String(word))
        continue
      }
      quoted.append(word)
      // It closes before punctuation, and does not with the quote that opens it.
      guard word.drop(while: { $0 == "(" }).dropFirst(opens ? 1 : 0).contains("'") else { continue }
      pieces.append(quoted.joined(separator: " "))
      quoted = []
    }
    return pieces + quoted.map(String.init)
  }
}
