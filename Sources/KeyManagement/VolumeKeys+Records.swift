import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage

extension RekeyBatch {
  /// Where the batches in progress are, in the store's own directory.
  package static let names: [PathName] = ["rekey.0", "rekey.1"]
}

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

  /// The authentic batches of rekeys in the store's own directory, the earlier one first. Any other content of their
  /// files is what a crash left of a batch being written.
  ///
  /// - Throws: the error of reading them.
  package func rekeyBatches(in store: borrowing Descriptor) throws(Errno) -> [RekeyBatch] {
    var found: [RekeyBatch] = []
    for name in RekeyBatch.names {
      let bytes: [UInt8]
      do throws(Errno) {
        let file = try store.open(name, [.readOnly, .noFollow, .nonBlocking]).asOnServer()
        bytes = try file.readAll(limit: RekeyBatch.longest + 1)
      } catch .noSuchFileOrDirectory {
        continue
      }
      guard let batch = try? RekeyBatch(parsing: bytes) else { continue }
      do throws(CryptographyError) {
        if try isAuthentic(batch) { found.append(batch) }
      } catch {
        throw Errno(error)
      }
    }
    return found.sorted { $0.number < $1.number }
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
