// The index has no arguments. Where these do not find any, the lint is unsure.
extension SourceText {
  struct Argument {
    let label: String?
    let range: Range<Int>
  }

  struct ArgumentList {
    let arguments: [Argument]
    /// From the opening bracket to behind the closing one.
    let range: Range<Int>
  }

  /// The arguments of the call of a function whose name starts at an offset, or whose opening bracket is there.
  func arguments(ofCallAt offset: Int) -> ArgumentList? {
    let start = skipTrivia(skipName(offset))
    guard character(at: start) == "(", let end = skipToken(start) else { return nil }
    return ArgumentList(arguments: elements(in: start + 1..<end - 1).map(argument), range: start..<end)
  }

  /// The labels of a full name, `(_:options:)`, if that is what brackets hold; nil for the label `_`.
  func labels(_ brackets: Range<Int>) -> [String?]? {
    let text = text(brackets)
    guard text.wholeMatch(of: /\(\s*(\w+\s*:\s*)+\)/) != nil else { return nil }
    return text.matches(of: /\w+/).map { $0.output == "_" ? nil : String($0.output) }
  }

  /// The elements of a literal in square brackets, if the range holds that alone.
  func literal(_ range: Range<Int>) -> [Range<Int>]? {
    guard character(at: range.lowerBound) == "[", skipToken(range.lowerBound) == range.upperBound else { return nil }
    return elements(in: range.lowerBound + 1..<range.upperBound - 1)
  }

  /// The last name of a chain of names, `atomic` of `Data.WritingOptions.atomic`, if the range starts with one, and the
  /// offset behind it.
  func member(_ range: Range<Int>) -> (name: String, end: Int)? {
    var offset = range.lowerBound
    while offset < range.upperBound {
      if character(at: offset) == "." { offset = skipTrivia(offset + 1) }
      let end = skipName(offset)
      guard end > offset else { return nil }
      let next = skipTrivia(end)
      if next >= range.upperBound || character(at: next) != "." { return (text(offset..<end), end) }
      offset = next
    }
    return nil
  }

  /// The subscript behind what ends at an offset, past brackets that close around that, `?` and `!`.
  func subscriptRange(after offset: Int) -> Range<Int>? {
    var offset = skipTrivia(offset)
    while let next = character(at: offset), ")?!".contains(next) { offset = skipTrivia(offset + 1) }
    guard character(at: offset) == "[", let end = skipToken(offset) else { return nil }
    return offset..<end
  }

  /// Splits at the commas that are in no bracket, string or comment.
  private func elements(in range: Range<Int>) -> [Range<Int>] {
    var elements: [Range<Int>] = []
    var start = skipTrivia(range.lowerBound)
    var (offset, end) = (start, start)
    while offset < range.upperBound, let next = skipToken(offset) {
      if character(at: offset) == "," {
        elements.append(start..<end)
        start = skipTrivia(next)
      }
      end = next
      offset = skipTrivia(next)
    }
    // There may be a comma behind the last.
    return start < range.upperBound ? elements + [start..<end] : elements
  }

  private func argument(_ range: Range<Int>) -> Argument {
    let name = skipName(range.lowerBound)
    let colon = skipTrivia(name)
    guard name > range.lowerBound, colon < range.upperBound, character(at: colon) == ":" else {
      return Argument(label: nil, range: range)
    }
    let value = min(skipTrivia(colon + 1), range.upperBound)
    return Argument(label: text(range.lowerBound..<name), range: value..<range.upperBound)
  }
}
