/// A record or batch that carries a tag of its store: HMAC-SHA256, cut off, over a label and what comes before the tag.
package protocol TaggedRecord {
  /// What is authenticated before the bytes, to tell kinds of records under the same key apart.
  static var tagLabel: StaticString { get }
  /// What the tag authenticates, after the label.
  var bytesBeforeTag: [UInt8] { get }
  var tag: [UInt8] { get set }
}

extension FileRecord: TaggedRecord {}
extension DirectoryRecord: TaggedRecord {}
extension RekeyBatch: TaggedRecord {}
