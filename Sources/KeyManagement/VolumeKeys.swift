import Cryptography
import StoreFormat

/// The keys that are in memory as long as a store is mounted: names, links and records can be read while it is locked.
package final class VolumeKeys: Sendable {
  /// Names; the associated data is the ID of the directory they are in.
  package let names: NameCipher
  /// Targets of symbolic links; no associated data.
  package let symbolicLinks: NameCipher
  /// Names of extended attributes, as stored with their values; no associated data.
  package let attributeNames: NameCipher
  /// Values of extended attributes of directories; the associated data is the directory's ID and then the name.
  package let directoryAttributes: NameCipher
  /// Tags of the records of files and directories.
  package let records: RecordAuthenticator
  /// Hashes of names of extended attributes, under which they are found; the label is empty.
  package let attributeNameHash: RecordAuthenticator

  /// Derives the keys.
  package init(_ key: borrowing VolumeDeviceKey, storeID: StoreID) throws(CryptographyError) {
    names = try NameCipher(key: key.key(for: .names, of: storeID))
    symbolicLinks = try NameCipher(key: key.key(for: .symbolicLinks, of: storeID))
    attributeNames = try NameCipher(key: key.key(for: .attributeNames, of: storeID))
    directoryAttributes = try NameCipher(key: key.key(for: .directoryAttributes, of: storeID))
    records = try RecordAuthenticator(key: key.key(for: .records, of: storeID))
    attributeNameHash = try RecordAuthenticator(key: key.key(for: .attributeNameHash, of: storeID))
  }
}
