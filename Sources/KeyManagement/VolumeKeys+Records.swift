import Cryptography
import LinuxIO
import StoreFormat

// The formulas of records and names, for who serves a store and who checks one.
extension VolumeKeys {
  /// A file's record with the tag of this store.
  package func tagged(_ record: FileRecord) throws(CryptographyError) -> FileRecord {
    var record = record
    record.tag = try records.tag(FileRecord.tagLabel, record.bytesBeforeTag)
    return record
  }

  /// A directory's record with the tag of this store.
  package func tagged(_ record: DirectoryRecord) throws(CryptographyError) -> DirectoryRecord {
    var record = record
    record.tag = try records.tag(DirectoryRecord.tagLabel, record.bytesBeforeTag)
    return record
  }

  /// Whether a file's record carries the tag of this store.
  package func isAuthentic(_ record: FileRecord) throws(CryptographyError) -> Bool {
    try records.verify(record.tag, FileRecord.tagLabel, record.bytesBeforeTag)
  }

  /// Whether a directory's record carries the tag of this store.
  package func isAuthentic(_ record: DirectoryRecord) throws(CryptographyError) -> Bool {
    try records.verify(record.tag, DirectoryRecord.tagLabel, record.bytesBeforeTag)
  }

  /// A batch of rekeys with the tag of this store.
  package func tagged(_ batch: RekeyBatch) throws(CryptographyError) -> RekeyBatch {
    var batch = batch
    batch.tag = try records.tag(RekeyBatch.tagLabel, batch.bytesBeforeTag)
    return batch
  }

  /// Whether a batch of rekeys carries the tag of this store.
  package func isAuthentic(_ batch: RekeyBatch) throws(CryptographyError) -> Bool {
    try records.verify(batch.tag, RekeyBatch.tagLabel, batch.bytesBeforeTag)
  }

  /// The name of an entry of the directory with that ID; `nil` when it is not authentic, or none an entry can have.
  package func entryName(_ sealed: [UInt8], in directoryID: [UInt8]) -> PathName? {
    guard let bytes = try? names.open(sealed, associatedData: directoryID) else { return nil }
    let name = PathName(bytes: bytes)
    return name.isEntryName ? name : nil
  }

  /// The backing name of an extended attribute.
  package func backingAttributeName(_ name: [UInt8]) throws(CryptographyError) -> [UInt8] {
    AttributeEncoding.backingName(hash: try attributeNameHash.tag("", name))
  }
}
