// Targets of symbolic links. The backing link's text is base64url of the encrypted target, or names the long symlink
// file.
extension NameEncoding {
  /// The maximum target that fits into a backing link, in bytes: its text, 4/3 · (3055 + 16) bytes, is the longest that
  /// a link on Linux can hold, `PATH_MAX` − 1.
  package static let longestDirectTarget = 3055
  /// The maximum length of a target, in bytes (`PATH_MAX` − 1).
  package static let longestTarget = 4095

  /// The text for an encrypted target of at most ``longestDirectTarget`` bytes.
  package static func encode(_ encrypted: [UInt8]) -> [UInt8] { Base64URL.encode(encrypted) }

  /// The encrypted target in a text; `nil` for a text that does not encode a target.
  package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
    guard targetCount(textCount: text.count) != nil else { return nil }
    return Base64URL.decode(text)
  }

  /// The length of a target, `st_size`, from that of the text, both in bytes; `nil` for a length that no text has.
  package static func targetCount(textCount: Int) -> Int? {
    guard let count = Base64URL.decodedCount(textCount), count > overhead, count <= longestDirectTarget + overhead
    else { return nil }
    return count - overhead
  }
}

/// A target that is too long for a backing link. The target is in a *long symlink file*, which the link names.
package struct LongTarget: Sendable, Equatable {
  /// The directory of long symlink files, in the store's own directory.
  package static let directory = "targets"
  /// The path of that directory from the backing directory.
  package static let directoryPath = NameEncoding.storeDirectory + "/" + directory
  /// The length of a token, in bytes.
  package static let tokenCount = 16
  /// The length of a text, in bytes. No encrypted target has this length.
  package static let textCount = 25

  private static let mark = UInt8(ascii: "~")
  private static let counts = NameEncoding.longestDirectTarget + 1...NameEncoding.longestTarget

  /// Random; encodes the name of the long symlink file.
  package let token: [UInt8]
  /// The length of the target, in bytes.
  package let count: Int

  /// A target of `count` bytes in the long symlink file of a new token.
  package init(token: [UInt8], count: Int) {
    precondition(token.count == Self.tokenCount && Self.counts.contains(count))
    self.token = token
    self.count = count
  }

  /// The target that a link's text names; `nil` for any other text.
  package init?(text: some Collection<UInt8>) {
    guard text.count == Self.textCount, text.first == Self.mark, let bytes = Base64URL.decode(text.dropFirst())
    else { return nil }
    token = Array(bytes.prefix(Self.tokenCount))
    count = Int(bytes[Self.tokenCount]) | Int(bytes[Self.tokenCount + 1]) << 8
    guard Self.counts.contains(count) else { return nil }
  }

  /// The text of the link.
  package var text: [UInt8] {
    [Self.mark] + Base64URL.encode(token + [UInt8(truncatingIfNeeded: count), UInt8(truncatingIfNeeded: count >> 8)])
  }

  /// The name of the long symlink file.
  package var fileName: [UInt8] { Base64URL.encode(token) }

  /// The token in the name of a long symlink file; `nil` for any other name.
  package static func token(ofFile name: some Collection<UInt8>) -> [UInt8]? {
    guard let token = Base64URL.decode(name), token.count == tokenCount else { return nil }
    return token
  }

  /// The length of the long symlink file, in bytes.
  package var fileSize: Int { count + NameEncoding.overhead }
}
