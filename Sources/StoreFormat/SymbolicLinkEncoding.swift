/// Targets of symbolic links as the backing link has them: base64url of the sealed target.
package enum SymbolicLinkEncoding {
  /// The longest target, in bytes: 4/3 · (3055 + 16) is the longest a link on Linux can hold, `PATH_MAX` − 1.
  package static let longestTarget = 3055

  /// The text of the backing link; `nil` when the target was too long or empty.
  package static func text(sealed: [UInt8]) -> [UInt8]? {
    isPossible(sealed.count) ? Base64URL.encode(sealed) : nil
  }

  /// The sealed target in a backing link's text; `nil` for text that no target gives.
  package static func sealed(text: [UInt8]) -> [UInt8]? {
    guard targetLength(textLength: UInt64(text.count)) != nil else { return nil }
    return Base64URL.decode(text)
  }

  /// The length of the target, `st_size`, from that of the backing link's text, both in bytes; `nil` for a length that no
  /// text has.
  package static func targetLength(textLength: UInt64) -> UInt64? {
    guard textLength < 4096, let count = Base64URL.decodedCount(Int(textLength)), isPossible(count) else { return nil }
    return UInt64(count - NameEncoding.overhead)
  }

  private static func isPossible(_ sealedCount: Int) -> Bool {
    sealedCount > NameEncoding.overhead && sealedCount <= longestTarget + NameEncoding.overhead
  }
}
