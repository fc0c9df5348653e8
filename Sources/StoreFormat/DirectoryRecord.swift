import ProtectfsPolicy

/// The content of a directory's extended attribute `user.cprotect`: the class of what is created in the directory, and
/// the directory's identity.
///
/// ```
///  0  1  version, 1
///  1  1  class
///  2  2  flags: bit 0, the class was set explicitly
///  4  4  0
///  8 16  directory ID, random: the associated data of the names in it
/// 24 16  tag
/// ```
package struct DirectoryRecord: Sendable, Equatable {
  /// The extended attribute of the backing directory.
  package static let attributeName = FileRecord.attributeName
  /// Authenticated before the record, to distinguish it from other kinds of records under the same key.
  package static let tagLabel: StaticString = "protectfs directory record\0"
  /// The length of a record, in bytes.
  package static let size = 40
  /// The length of a directory ID, in bytes.
  package static let identifierSize = 16

  /// The class that files and directories get when they are created in this directory.
  package var directoryClass: ProtectionClass
  /// Whether the class is explicit, not inherited.
  package var isExplicit: Bool
  /// 16 random bytes, generated when the directory is created. They do not change when it is moved.
  package var directoryID: [UInt8]
  /// The first 16 bytes of HMAC-SHA256 over the label and ``bytesBeforeTag``.
  package var tag: [UInt8]

  /// A record without its tag, which is set to zeros.
  package init(directoryClass: ProtectionClass, isExplicit: Bool, directoryID: [UInt8]) {
    self.directoryClass = directoryClass
    self.isExplicit = isExplicit
    self.directoryID = directoryID
    tag = [UInt8](repeating: 0, count: 16)
  }

  /// Parses a record. The caller checks the tag.
  package init(parsing bytes: [UInt8]) throws(FormatError) {
    var reader = ByteReader(bytes, record: .directory)
    let header = try reader.readRecordHeader()
    (directoryClass, isExplicit) = (header.fileClass, header.flags & 1 == 1)
    let reserved: UInt32 = try reader.readInteger("reserved")
    try reader.require(reserved == 0, "reserved", "is not 0")
    directoryID = try reader.read(Self.identifierSize, "directory ID")
    tag = try reader.read(16, "tag")
    try reader.finish()
  }

  /// The bytes that the tag authenticates after the label.
  package var bytesBeforeTag: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(Self.size)
    bytes.appendRecordHeader(1, directoryClass, flags: isExplicit ? 1 : 0)
    bytes.append(integer: UInt32(0))
    return bytes + directoryID
  }

  /// The record as it is stored.
  package var bytes: [UInt8] { bytesBeforeTag + tag }
}
