import Cryptography
import StoreFormat

// The formulas of records and attribute names, for who serves a store and who checks one.
extension VolumeKeys {
  /// Whether a file's record carries the tag of this store.
  package func isAuthentic(_ record: FileRecord) throws(CryptographyError) -> Bool {
    try records.verify(record.tag, FileRecord.tagLabel, record.bytesBeforeTag)
  }

  /// Whether a directory's record carries the tag of this store.
  package func isAuthentic(_ record: DirectoryRecord) throws(CryptographyError) -> Bool {
    try records.verify(record.tag, DirectoryRecord.tagLabel, record.bytesBeforeTag)
  }

  /// The backing name of an extended attribute.
  package func backingAttributeName(_ name: [UInt8]) throws(CryptographyError) -> [UInt8] {
    AttributeEncoding.backingName(hash: try attributeNameHash.tag("", name))
  }
}
