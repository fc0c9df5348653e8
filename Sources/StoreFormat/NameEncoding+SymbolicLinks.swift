// Targets of symbolic links: the backing link's text is base64url of the sealed target.
extension NameEncoding {
  /// The longest target, in bytes: 4/3 · (3055 + 16) is the longest a link on Linux can hold, `PATH_MAX` − 1.
  package static let maximumTargetCount = 3055

  /// The text for a sealed target.
  package static func encode(_ sealed: [UInt8]) -> [UInt8] { Base64URL.encode(sealed) }

  /// The sealed target in a text; `nil` for text that no target gives.
  package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
    guard targetCount(textCount: text.count) != nil else { return nil }
    return Base64URL.decode(text)
  }

  /// The length of a target, `st_size`, from that of the text, both in bytes; `nil` for a length that no text has.
  package static func targetCount(textCount: Int) -> Int? {
    guard let count = Base64URL.decodedCount(textCount), count > overhead, count <= maximumTargetCount + overhead
    else { return nil }
    return count - overhead
  }
}
