// Arguments that are written out, and so known to hold no class.
extension SourceText {
  /// Whether a set of options is written out, none of which is unknown.
  func isPlainOptions(_ range: Range<Int>) -> Bool {
    guard let elements = literal(range) else { return isMember(range, of: Self.plainOptions) }
    return elements.allSatisfy { isMember($0, of: Self.plainOptions) }
  }

  /// Whether a dictionary of attributes is written out, or nil, and none of its keys is unknown.
  func isPlainAttributes(_ range: Range<Int>) -> Bool {
    guard let elements = literal(range) else { return isMember(range, of: ["nil", "none"]) }
    return elements.allSatisfy { element in
      if text(element) == ":" { return true }
      guard let (name, end) = member(element) else { return false }
      return Self.plainAttributes.contains(name) && character(at: skipTrivia(end)) == ":"
    }
  }

  /// Whether keys of resources, or a dictionary of them, are written out. That none is the class's is for the caller to
  /// know.
  func isPlainResourceKeys(_ range: Range<Int>) -> Bool {
    guard let elements = literal(range) else { return isPlainResourceKey(range) }
    return elements.allSatisfy { text($0) == ":" || isPlainResourceKey($0) }
  }

  private func isPlainResourceKey(_ range: Range<Int>) -> Bool {
    guard character(at: range.lowerBound) == "." || hasText("URLResourceKey.", at: range.lowerBound),
      let (name, end) = member(range), name.hasSuffix("Key")
    else { return false }
    return end == range.upperBound || character(at: skipTrivia(end)) == ":"
  }

  private func isMember(_ range: Range<Int>, of names: Set<String>) -> Bool {
    guard let (name, end) = member(range), end == range.upperBound else { return false }
    return names.contains(name)
  }

  /// Whether what starts at an offset is the whole of a subscript that is not assigned to.
  func isRead(_ offset: Int) -> Bool {
    guard let start = bytes[..<offset].lastIndex(of: UInt8(ascii: "[")), let end = skipToken(start),
      let (_, behind) = member(start + 1..<end - 1), skipTrivia(behind) == end - 1, end > offset
    else { return false }
    let next = skipTrivia(end)
    return start > 0 && !" \n\t(,[:=".contains(character(at: start - 1)!)
      && (character(at: next) != "=" || hasText("==", at: next))
  }

  private static let plainOptions: Set = ["atomic", "atomicWrite", "withoutOverwriting"]
  private static let plainAttributes: Set = [
    "appendOnly", "busy", "creationDate", "extensionHidden", "groupOwnerAccountID", "groupOwnerAccountName",
    "hfsCreatorCode", "hfsTypeCode", "immutable", "modificationDate", "ownerAccountID", "ownerAccountName",
    "posixPermissions", "size", "type",
  ]
}
