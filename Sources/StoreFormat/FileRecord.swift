import ProtectfsPolicy

/// The content of a regular file's extended attribute ``attributeName``: its class, and its key wrapped under the class
/// key.
///
/// ```
///  0  1  version, 1; 0x81 while a rekey is pending
///  1  1  class
///  2  2  flags: bit 0, the class was set explicitly; bit 1, another rekey follows the one that is pending
///  4  4  identifier of the class key, not 0
///  8 40  wrapped key; 72 in class B, the ephemeral public key first
/// 48 48  pending rekey, at 80 in class B; only in version 0x81
/// 48 16  tag, at 80 in class B; 48 bytes later in version 0x81
/// ```
/// A record of 64 bytes fits into an ext4 inode of 256 bytes. One byte more would cost each file a block of 4 KiB.
package struct FileRecord: Sendable, Equatable {
  /// The extended attribute of the backing file. iOS uses the same name (XNU, `sys/content_protection.h`).
  package static let attributeName = "user.cprotect"
  /// Authenticated before the record, to distinguish it from other kinds of records under the same key.
  package static let tagLabel: StaticString = "protectfs file record\0"
  /// The maximum length of a record, in bytes.
  package static let longest = 144

  /// The file's class.
  package var fileClass: ProtectionClass
  /// Whether the class is explicit, not inherited.
  package var isExplicit: Bool
  /// The identifier of the class key that wraps the file's key.
  package var classKeyID: ClassKeyID
  /// The file's wrapped key: ``wrappedKeySize(in:)`` bytes.
  package var wrappedKey: [UInt8]
  /// The pending rekey; `nil` if there is none.
  package var pending: PendingRekey?
  /// The first 16 bytes of HMAC-SHA256 over the label and ``bytesBeforeTag``.
  package var tag: [UInt8]

  /// The length of a wrapped key in a class, in bytes.
  package static func wrappedKeySize(in fileClass: ProtectionClass) -> Int {
    fileClass.hasKeyPair ? 72 : 40
  }

  /// A record without its tag, which is set to zeros.
  package init(
    fileClass: ProtectionClass, isExplicit: Bool, classKeyID: ClassKeyID, wrappedKey: [UInt8],
    pending: PendingRekey? = nil
  ) {
    self.pending = pending
    self.fileClass = fileClass
    self.isExplicit = isExplicit
    self.classKeyID = classKeyID
    self.wrappedKey = wrappedKey
    tag = [UInt8](repeating: 0, count: 16)
  }

  /// Parses a record. The caller checks the tag.
  package init(parsing bytes: [UInt8]) throws(FormatError) {
    var reader = ByteReader(bytes, record: .file)
    let header = try reader.readRecordHeader(mayBePending: true)
    (fileClass, isExplicit) = (header.fileClass, header.flags & 1 == 1)
    classKeyID = try reader.readClassKeyID()
    wrappedKey = try reader.read(Self.wrappedKeySize(in: fileClass), "wrapped key")
    if header.isPending { pending = try PendingRekey(&reader, isFollowed: header.flags & 2 == 2) }
    tag = try reader.read(16, "tag")
    try reader.finish()
  }

  /// The bytes that the tag authenticates after the label.
  package var bytesBeforeTag: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(Self.longest)
    bytes.appendRecordHeader(
      fileClass, isExplicit: isExplicit, isPending: pending != nil, isFollowed: pending?.isFollowed ?? false)
    bytes.append(integer: classKeyID.rawValue)
    bytes += wrappedKey
    if let pending { bytes += pending.bytes }
    return bytes
  }

  /// The record as it is stored.
  package var bytes: [UInt8] { bytesBeforeTag + tag }
}

/// The common beginning of the records of files and directories.
struct RecordHeader {
  var fileClass: ProtectionClass
  var flags: UInt16
  var isPending: Bool
}

/// The version of a file's record while a rekey is pending.
private let pendingVersion: UInt8 = 0x81

extension ByteReader {
  /// Reads version, class and flags. The version that only files' records have is accepted if `mayBePending`.
  mutating func readRecordHeader(mayBePending: Bool = false) throws(FormatError) -> RecordHeader {
    let version: UInt8 = try readInteger("version")
    let isPending = mayBePending && version == pendingVersion
    guard version == 1 || isPending else { throw .unsupportedVersion(record: record, version: UInt16(version)) }
    let fileClass = try readClass("class")
    let flags: UInt16 = try readInteger("flags")
    try require(flags & ~(isPending ? 3 : 1) == 0, "flags", "has unknown bits")
    return RecordHeader(fileClass: fileClass, flags: flags, isPending: isPending)
  }

  /// The identifier of a class key.
  mutating func readClassKeyID() throws(FormatError) -> ClassKeyID {
    guard let id = ClassKeyID(rawValue: try readInteger("identifier of a class key")) else {
      throw malformed("identifier of a class key", "is 0")
    }
    return id
  }

  /// The number of a protection class.
  mutating func readClass(_ field: String) throws(FormatError) -> ProtectionClass {
    let number: UInt8 = try readInteger(field)
    guard let fileClass = ProtectionClass(rawValue: number) else { throw malformed(field, "\(number) is not known") }
    return fileClass
  }
}

extension [UInt8] {
  /// Version, class and flags.
  mutating func appendRecordHeader(
    _ fileClass: ProtectionClass, isExplicit: Bool, isPending: Bool = false, isFollowed: Bool = false
  ) {
    append(isPending ? pendingVersion : 1)
    append(fileClass.rawValue)
    append(integer: UInt16((isExplicit ? 1 : 0) | (isFollowed ? 2 : 0)))
  }
}
