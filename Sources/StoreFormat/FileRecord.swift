import ProtectfsPolicy

/// The content of a regular file's extended attribute ``attributeName``: its class, and its key wrapped under the class
/// key.
///
/// ```
///  0  1  version, 1; 0x10 and 0x20 more by ``clean``, 0x40 with a time shift, 0x80 while a rekey is pending
///  1  1  class
///  2  2  flags: bit 0, the class was set explicitly; bit 1, another rekey follows the one that is pending; bits 2 to
///        15, the seconds of the time shift
///  4  4  identifier of the class key, not 0
///  8 40  wrapped key; 72 in class B, the ephemeral public key first
/// 48 48  pending rekey, at 80 in class B; only while one is pending
/// 48 16  tag; with a time shift, 4 bytes of its nanoseconds and a tag of 12 bytes
/// ```
/// What follows the wrapped key is 32 bytes later in class B; the tag is 48 bytes later while a rekey is pending.
///
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
  /// By how much the backing file's modification time was moved; `nil` if it was not.
  package var timeShift: TimeShift?
  /// What is known of the contents of a clean file; `nil` from before their first change until they are durable, and in
  /// stores that have no such marks.
  package var clean: CleanContents?
  /// The first 16 bytes, with a time shift 12, of HMAC-SHA256 over the label and ``authenticatedBytes``.
  package var tag: [UInt8]

  /// Whether the bytes of a record say that its class is explicit. No more of them is looked at.
  package static func saysExplicit(_ bytes: [UInt8]) -> Bool { bytes.count > 2 && bytes[2] & 1 == 1 }

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
  ///
  /// - Parameter length: that of the contents, in bytes, which the tag of a clean file's record covers; `nil` in a
  ///   store that has no marks.
  package init(parsing bytes: [UInt8], length: UInt64? = nil) throws(FormatError) {
    var reader = ByteReader(bytes, record: .file)
    let header = try reader.readRecordHeader(of: length == nil ? fileBits : fileBits | markBits)
    if header.isClean, let length { clean = CleanContents(length: length, isDense: header.isDense) }
    (fileClass, isExplicit) = (header.fileClass, header.flags & 1 == 1)
    classKeyID = try reader.readClassKeyID()
    wrappedKey = try reader.read(Self.wrappedKeySize(in: fileClass), "wrapped key")
    if header.isPending { pending = try PendingRekey(&reader, isFollowed: header.flags & 2 == 2) }
    if header.hasTimeShift {
      timeShift = TimeShift(seconds: header.flags >> 2, nanoseconds: try reader.readInteger("nanoseconds"))
      try reader.require(timeShift != nil, "time shift", "is out of range")
    }
    tag = []
    tag = try reader.read(tagSize, "tag")
    try reader.finish()
  }

  /// Whether a record is that of another version, which may be intact although it cannot be parsed.
  ///
  /// - Parameter hasMarks: whether the store has marks of clean files.
  package static func hasUnknownVersion(_ bytes: [UInt8], hasMarks: Bool) -> Bool {
    bytes.first.map { $0 & ~(hasMarks ? fileBits | markBits : fileBits) > 1 } ?? false
  }

  /// Whether a record, in a store that has marks, is that of a clean file.
  package static func isClean(_ bytes: [UInt8]) -> Bool { bytes.first.map { $0 & cleanBit != 0 } ?? false }

  /// What the tag authenticates after the label: the record without its tag and, of a clean file, the length of the
  /// contents.
  package var authenticatedBytes: [UInt8] {
    var bytes = bytesBeforeTag
    if let clean { bytes.append(integer: clean.length) }
    return bytes
  }

  package var bytesBeforeTag: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(Self.longest)
    let marks = clean.map { cleanBit | ($0.isDense ? denseBit : 0) } ?? 0
    let version = 1 | marks | (timeShift == nil ? 0 : shiftedBit) | (pending == nil ? 0 : pendingBit)
    bytes.appendRecordHeader(
      version, fileClass,
      flags: (isExplicit ? 1 : 0) | (pending?.isFollowed == true ? 2 : 0) | (timeShift?.seconds ?? 0) << 2)
    bytes.append(integer: classKeyID.rawValue)
    bytes += wrappedKey
    if let pending { bytes += pending.bytes }
    if let timeShift { bytes.append(integer: timeShift.nanoseconds) }
    return bytes
  }

  /// What users see of the backing file's modification time.
  package func shown(_ time: TimeShift.Time) -> TimeShift.Time { timeShift?.shown(time) ?? time }

  package var tagSize: Int { timeShift == nil ? 16 : 12 }

  /// The record as it is stored.
  package var bytes: [UInt8] { bytesBeforeTag + tag }
}

/// What the record of a clean file says of its contents, which are durable: whoever cut or extended them since did so
/// without the store's keys.
package struct CleanContents: Sendable, Equatable {
  /// Their length in bytes, which the tag covers. The record does not have it.
  package var length: UInt64
  /// None of their pages is a hole.
  package var isDense: Bool

  package init(length: UInt64, isDense: Bool) { (self.length, self.isDense) = (length, isDense) }
}

/// The common beginning of the records of files and directories.
struct RecordHeader {
  var fileClass: ProtectionClass
  var flags: UInt16
  var isPending: Bool
  var hasTimeShift: Bool
  var isClean: Bool
  var isDense: Bool
}

/// Bits of the version of a file's record: the file is clean, and dense; it has a time shift; a rekey is pending.
private let (denseBit, cleanBit): (UInt8, UInt8) = (0x10, 0x20)
private let (shiftedBit, pendingBit): (UInt8, UInt8) = (0x40, 0x80)
private let (markBits, fileBits) = (denseBit | cleanBit, shiftedBit | pendingBit)

extension ByteReader {
  /// Reads version, class and flags. `bits` of the version may be set.
  mutating func readRecordHeader(of bits: UInt8 = 0) throws(FormatError) -> RecordHeader {
    let version: UInt8 = try readInteger("version")
    let (isPending, hasTimeShift) = (version & pendingBit != 0, version & shiftedBit != 0)
    let (isClean, isDense) = (version & cleanBit != 0, version & denseBit != 0)
    guard version & ~bits == 1, isClean || !isDense else {
      throw .unsupportedVersion(record: record, version: UInt16(version))
    }
    let fileClass = try readClass("class")
    let flags: UInt16 = try readInteger("flags")
    let known: UInt16 = 1 | (isPending ? 2 : 0) | (hasTimeShift ? ~3 : 0)
    try require(flags & ~known == 0, "flags", "has unknown bits")
    return RecordHeader(
      fileClass: fileClass, flags: flags, isPending: isPending, hasTimeShift: hasTimeShift, isClean: isClean,
      isDense: isDense)
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
  mutating func appendRecordHeader(_ version: UInt8, _ fileClass: ProtectionClass, flags: UInt16) {
    append(version)
    append(fileClass.rawValue)
    append(integer: flags)
  }
}
