/// A record or batch with an authentication tag of its store: truncated HMAC-SHA256 over a label and the bytes before
/// the tag.
package protocol TaggedRecord {
  /// Authenticated before the bytes, to distinguish kinds of records under the same key.
  static var tagLabel: StaticString { get }
  /// The bytes that the tag authenticates after the label.
  var bytesBeforeTag: [UInt8] { get }
  var tag: [UInt8] { get set }
  /// The length of the tag, in bytes.
  var tagSize: Int { get }
}

extension TaggedRecord {
  package var tagSize: Int { 16 }
}

extension FileRecord: TaggedRecord {}
extension DirectoryRecord: TaggedRecord {}
extension RekeyBatch: TaggedRecord {}
