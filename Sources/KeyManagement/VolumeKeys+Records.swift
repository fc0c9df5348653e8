import Cryptography
import ProtectfsIO
import StoreFormat

// The formulas of records and names, for who serves a store and who checks one.
extension VolumeKeys {
  /// A record with the tag of this store.
  package func tagged<Record: TaggedRecord>(_ record: Record) throws(CryptographyError) -> Record {
    var record = record
    record.tag = try records.tag(Record.tagLabel, record.authenticatedBytes, size: record.tagSize)
    return record
  }

  /// Whether a record carries the tag of this store.
  package func isAuthentic<Record: TaggedRecord>(_ record: Record) throws(CryptographyError) -> Bool {
    try records.verify(record.tag, Record.tagLabel, record.authenticatedBytes, size: record.tagSize)
  }

  /// The name of an entry of the directory with that ID; `nil` when it is not authentic, or none an entry can have.
  package func entryName(_ encrypted: [UInt8], in directoryID: [UInt8]) -> PathName? {
    guard let bytes = try? names.decrypt(encrypted, associatedData: directoryID) else { return nil }
    let name = PathName(bytes: bytes)
    return name.isEntryName ? name : nil
  }

  /// The backing name of an extended attribute.
  package func backingAttributeName(_ name: [UInt8]) throws(CryptographyError) -> [UInt8] {
    AttributeEncoding.backingName(hash: try attributeNameHash.tag("", name))
  }
}
