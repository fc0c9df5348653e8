// Classes and their keys that are named by strings, which are no symbols in the index.
extension SourceText {
  /// A string that is the name of a class, or of the key of one.
  struct ClassString {
    let carrier: ClassCarrier
    let offset: Int
    /// The static member that the string is the value of: `static let key = FileAttributeKey(rawValue: "…")`.
    let member: String?
  }

  func classStrings() -> [ClassString] {
    // Most files have none.
    let first = UInt8(ascii: "F")
    guard bytes.indices.contains(where: { bytes[$0] == first && hasText("FileProtection", at: $0) }) else { return [] }
    var strings: [ClassString] = []
    var offset = skipTrivia(0)
    while offset < bytes.count {
      let isString = character(at: offset) == "\"" || character(at: offset) == "#"
      if isString, let carrier = ClassCarrier(ofStringIn: self, at: offset) {
        strings.append(ClassString(carrier: carrier, offset: offset, member: staticMember(before: offset)))
      }
      let next = isString || character(at: offset) == "`" ? skipToken(offset) : nil
      offset = skipTrivia(next ?? offset + 1)
    }
    return strings
  }

  /// The offsets at which a static member of one of these names is named, with or without its type.
  func uses(of members: [String: ClassCarrier]) -> [(carrier: ClassCarrier, offset: Int)] {
    guard !members.isEmpty else { return [] }
    return bytes.indices.compactMap { dot in
      guard character(at: dot) == "." else { return nil }
      let end = skipName(dot + 1)
      guard end > dot + 1, let carrier = members[text(dot + 1..<end)] else { return nil }
      return (carrier, dot + 1)
    }
  }

  /// The static member whose declaration an offset is in, in the same line or the one after.
  private func staticMember(before offset: Int) -> String? {
    let before = text(max(0, offset - 200)..<offset)
    guard let match = before.matches(of: /static\s+(?:let|var)\s+(\w+)/).last else { return nil }
    let between = before[match.range.upperBound...]
    return between.count { $0 == "\n" } <= 1 && !between.contains("}") ? String(match.output.1) : nil
  }
}

extension ClassCarrier {
  /// What a string that starts at an offset carries, if it is a name of Foundation's.
  fileprivate init?(ofStringIn text: SourceText, at offset: Int) {
    let start = text.bytes[offset...].firstIndex { $0 != UInt8(ascii: "#") && $0 != UInt8(ascii: "\"") } ?? offset
    if text.hasText("NSFileProtectionKey", at: start) {
      self = .attributes
    } else if text.hasText("NSURLFileProtectionKey", at: start) {
      self = .resources
    } else if text.hasText("NSFileProtection", at: start) || text.hasText("NSURLFileProtection", at: start) {
      self = .file
    } else {
      return nil
    }
  }
}
