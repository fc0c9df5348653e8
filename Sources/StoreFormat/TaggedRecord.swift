/// A record or batch with an authentication tag of its store: truncated HMAC-SHA256 over a label and the bytes before
/// the tag.
package protocol TaggedRecord {
  /// Authenticated before the bytes, to distinguish kinds of records under the same key.
  static var tagLabel: StaticString { get }
  /// The record without its tag.
  var bytesBeforeTag: [UInt8] { get }
  /// What the tag authenticates after the label.
  var authenticatedBytes: [UInt8] { get }
  var tag: [UInt8] { get set }
  /// The length of the tag, in bytes.
  var tagSize: Int { get }
}

extension TaggedRecord {
  package var authenticatedBytes: [UInt8] { bytesBeforeTag }
  package var tagSize: Int { 16 }
}

extension FileRecord: TaggedRecord {}
extension DirectoryRecord: TaggedRecord {}
extension RekeyBatch: TaggedRecord {}
