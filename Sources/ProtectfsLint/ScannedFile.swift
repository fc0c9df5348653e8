import FoundationEssentials

/// A file's occurrences with its text.
struct ScannedFile {
  let path: String
  /// Whether findings in it are reported, not only counted.
  let isReported: Bool
  let occurrences: [Occurrence]
  let text: SourceText
  let importsDataProtection: Bool
  /// Where classes, or the attribute that holds one, are named.
  private let mentions: [Mention]

  private struct Mention {
    let carrier: ClassCarrier
    let offset: Int
    /// Nil for what is named by a string.
    let container: String?
    /// It is the key by which a dictionary is read.
    let isRead: Bool
  }

  /// - Parameter members: static members that are classes, or keys of one, in all files.
  init(_ file: IndexedFile, text: SourceText, members: [String: ClassCarrier], isReported: Bool) {
    path = file.path
    self.isReported = isReported
    self.text = text
    occurrences = file.occurrences
    importsDataProtection = occurrences.contains { Self.modules.contains($0.usr) }
    let symbols = occurrences.compactMap { occurrence -> Mention? in
      guard let carrier = ClassCarrier(of: occurrence),
        let offset = text.offset(line: occurrence.line, column: occurrence.column)
      else { return nil }
      return Mention(
        carrier: carrier, offset: offset, container: occurrence.container?.usr, isRead: text.isRead(offset))
    }
    let strings = text.classStrings().map { ($0.carrier, $0.offset) } + text.uses(of: members)
    mentions =
      symbols
      + strings.map { Mention(carrier: $0, offset: $1, container: nil, isRead: text.isRead($1)) }
  }

  /// Whether the index's occurrences of a symbol of this name are of interest.
  static func isWanted(_ name: String) -> Bool {
    FileMethod.byName[name] != nil || name.hasPrefix("DataProtection") || name.hasPrefix("callAsFunction(")
      || ClassCarrier.isWanted(name)
  }

  /// The modules whose import puts properties in the place of Foundation's methods.
  private static let modules: Set = [
    "c:@M@DataProtection", "c:@M@DataProtectionEssentials", "c:@M@DataProtectionTesting",
  ]

  func offset(of occurrence: Occurrence) -> Int? { text.offset(line: occurrence.line, column: occurrence.column) }

  /// Whether a call names the method with its labels, `write(to:options:)`, or is not in the text.
  func isByFullName(_ call: Occurrence) -> Bool {
    offset(of: call).flatMap(text.arguments(ofCallAt:)).map { text.labels($0.range) != nil } ?? true
  }

  /// The arguments of a call of a method. Behind a full name they have no labels, and get those of the name.
  func arguments(of call: Occurrence) -> SourceText.ArgumentList? {
    guard let start = offset(of: call), let list = text.arguments(ofCallAt: start) else { return nil }
    guard let labels = text.labels(list.range) else { return list }
    guard let values = text.arguments(ofCallAt: list.range.upperBound), values.arguments.count == labels.count else {
      return nil
    }
    return SourceText.ArgumentList(
      arguments: zip(labels, values.arguments).map { SourceText.Argument(label: $0, range: $1.range) },
      range: values.range)
  }

  func namesClass(_ carrier: ClassCarrier, in range: Range<Int>) -> Bool {
    mentions.contains { $0.carrier == carrier && range.contains($0.offset) }
  }

  func namesClass(_ carrier: ClassCarrier) -> Bool { mentions.contains { $0.carrier == carrier } }

  /// Whether a function reads the class out of a dictionary.
  func readsClass(in container: String?) -> Bool {
    container != nil && mentions.contains { $0.isRead && ($0.container == nil || $0.container == container) }
  }

  /// Whether a class is named so that it can get into any call: not to read it, nor among the arguments of a call that
  /// is looked at itself.
  func passesClass(_ carrier: ClassCarrier, besides isLookedAt: (Occurrence) -> Bool) -> Bool {
    let calls = occurrences.filter { $0.roles.contains(.call) && isLookedAt($0) }
      .compactMap { arguments(of: $0)?.range }
    return mentions.contains { mention in
      mention.carrier == carrier && !mention.isRead && !calls.contains { $0.contains(mention.offset) }
    }
  }

  /// Whether a comment silences what is found in a line: in it, or alone in the one before.
  func silences(_ line: Int) -> Bool {
    let comment = "// protection-lint:ignore"
    let before = text.line(line - 1).map { $0.drop { $0.isWhitespace }.hasPrefix(comment) }
    return text.line(line)?.contains(comment) == true || before == true
  }
}
