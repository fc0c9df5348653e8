/// The text of a Swift file, with enough of the grammar to step over brackets, strings and comments.
struct SourceText {
  let bytes: [UInt8]
  private let lines: [Int]

  init(_ text: String) {
    let bytes = Array(text.utf8)
    self.bytes = bytes
    lines = [0] + bytes.indices.filter { bytes[$0] == UInt8(ascii: "\n") }.map { $0 + 1 }
  }

  /// The offset of a line and column, which count from 1.
  func offset(line: Int, column: Int) -> Int? {
    guard lines.indices.contains(line - 1) else { return nil }
    let offset = lines[line - 1] + column - 1
    return offset < bytes.count ? offset : nil
  }

  func line(_ line: Int) -> String? {
    guard lines.indices.contains(line - 1) else { return nil }
    return text(lines[line - 1]..<(line < lines.count ? lines[line] - 1 : bytes.count))
  }

  func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

  func character(at offset: Int) -> Character? {
    bytes.indices.contains(offset) ? Character(UnicodeScalar(bytes[offset])) : nil
  }

  func hasText(_ text: String, at offset: Int) -> Bool { bytes.dropFirst(offset).starts(with: text.utf8) }

  /// The first offset at which there is neither space nor comment.
  func skipTrivia(_ offset: Int) -> Int {
    var offset = offset
    while let character = character(at: offset) {
      if character.isWhitespace {
        offset += 1
      } else if hasText("//", at: offset) {
        offset = bytes[offset...].firstIndex(of: UInt8(ascii: "\n")) ?? bytes.count
      } else if hasText("/*", at: offset) {
        offset = skipComment(offset)
      } else {
        break
      }
    }
    return offset
  }

  /// The offset behind the name at an offset; the same offset if there is none.
  func skipName(_ offset: Int) -> Int {
    if character(at: offset) == "`" { return skipToken(offset) ?? offset }
    return bytes.dropFirst(offset).firstIndex { !Self.isName($0) } ?? bytes.count
  }

  /// The offset behind a bracket with all that it holds, a string, a name in backticks, or one character. Nil if that
  /// has no end.
  func skipToken(_ offset: Int) -> Int? {
    switch character(at: offset) {
    case "(": skipBracket(offset, closing: ")")
    case "[": skipBracket(offset, closing: "]")
    case "{": skipBracket(offset, closing: "}")
    case ")", "]", "}", nil: nil
    case "\"", "#": skipString(offset)
    case "`": bytes[(offset + 1)...].firstIndex(of: UInt8(ascii: "`")).map { $0 + 1 }
    default: offset + 1
    }
  }

  private func skipBracket(_ offset: Int, closing: Character) -> Int? {
    var offset = skipTrivia(offset + 1)
    while character(at: offset) != closing {
      guard let end = skipToken(offset) else { return nil }
      offset = skipTrivia(end)
    }
    return offset + 1
  }

  /// Comments nest.
  private func skipComment(_ offset: Int) -> Int {
    var (offset, depth) = (offset + 2, 1)
    while offset < bytes.count, depth > 0 {
      if hasText("/*", at: offset) {
        (offset, depth) = (offset + 2, depth + 1)
      } else if hasText("*/", at: offset) {
        (offset, depth) = (offset + 2, depth - 1)
      } else {
        offset += 1
      }
    }
    return offset
  }

  /// A string with what it interpolates; `#` alone is a character.
  private func skipString(_ offset: Int) -> Int? {
    let quote = bytes.dropFirst(offset).firstIndex { $0 != UInt8(ascii: "#") } ?? bytes.count
    guard character(at: quote) == "\"" else { return offset + 1 }
    let hashes = String(repeating: "#", count: quote - offset)
    let quotes = hasText("\"\"\"", at: quote) ? "\"\"\"" : "\""
    let (end, escape) = (quotes + hashes, "\\" + hashes)
    var offset = quote + quotes.utf8.count
    while offset < bytes.count {
      if hasText(end, at: offset) { return offset + end.utf8.count }
      if quotes.utf8.count == 1, character(at: offset) == "\n" { return nil }
      guard hasText(escape, at: offset) else {
        offset += 1
        continue
      }
      offset += escape.utf8.count
      if character(at: offset) == "(" {
        guard let next = skipToken(offset) else { return nil }
        offset = next
      } else {
        offset += 1
      }
    }
    return nil
  }

  private static func isName(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...: true
    default: false
    }
  }
}
