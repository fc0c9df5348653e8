import ProtectfsPolicy
import StoreFormat
import TestVectors
import Testing

@Suite("Records of files and directories") struct RecordTests {
  struct FileVector: Decodable, Sendable {
    let name: String
    let `class`: UInt8
    let explicit: Int
    let classKeyID: UInt32
    let wrappedKey, record: Hex
    let pending: Pending?
    let wrappedOldKey: Hex?
    let timeShift: Shift?
    let clean: Clean?

    struct Clean: Decodable, Sendable {
      let length: UInt64
      let dense: Int
    }

    struct Shift: Decodable, Sendable {
      let seconds: UInt16
      let nanoseconds: UInt32
    }

    struct Pending: Decodable, Sendable {
      let boundary: UInt64
      let followed: Int
    }
  }

  struct DirectoryVector: Decodable, Sendable {
    let name: String
    let `class`: UInt8
    let explicit: Int
    let directoryID, record: Hex
  }

  static func files() throws -> [FileVector] { try VectorFile.read("StoreFormatTests/file-records") }
  struct ShiftVector: Decodable, Sendable {
    let name: String
    let seconds: UInt16
    let nanoseconds: UInt32
    let shown, backing: [Int64]
  }

  static func shifts() throws -> [ShiftVector] { try VectorFile.read("StoreFormatTests/shifted-times") }
  static func directories() throws -> [DirectoryVector] { try VectorFile.read("StoreFormatTests/directory-records") }

  @Test(arguments: try files()) func file(_ vector: FileVector) throws {
    let record = try FileRecord(parsing: vector.record.bytes, length: vector.clean?.length)
    #expect(record.clean == vector.clean.map { CleanContents(length: $0.length, isDense: $0.dense == 1) })
    #expect(FileRecord.isClean(vector.record.bytes) == (vector.clean != nil))
    var covered = record.bytesBeforeTag
    if let length = vector.clean?.length { covered += (0..<8).map { UInt8(truncatingIfNeeded: length >> ($0 * 8)) } }
    #expect(record.authenticatedBytes == covered)
    #expect(record.fileClass.rawValue == vector.class)
    #expect(record.isExplicit == (vector.explicit == 1))
    #expect(record.classKeyID.rawValue == vector.classKeyID)
    #expect(record.wrappedKey == vector.wrappedKey.bytes)
    #expect(record.timeShift?.seconds == vector.timeShift?.seconds)
    #expect(record.timeShift?.nanoseconds == vector.timeShift?.nanoseconds)
    #expect(record.tag == Array(vector.record.bytes.suffix(record.tagSize)))
    #expect(record.bytes == vector.record.bytes)
    #expect(record.pending?.boundary == vector.pending?.boundary)
    #expect(record.pending?.isFollowed == vector.pending.map { $0.followed == 1 })
    #expect(record.pending?.wrappedOldKey == vector.wrappedOldKey?.bytes)
    #expect(record.bytesBeforeTag == Array(vector.record.bytes.dropLast(record.tagSize)))
    var made = FileRecord(
      fileClass: record.fileClass, isExplicit: record.isExplicit, classKeyID: record.classKeyID,
      wrappedKey: record.wrappedKey, pending: record.pending)
    made.timeShift = record.timeShift
    made.clean = record.clean
    made.tag = record.tag
    #expect(made == record)
  }

  @Test(arguments: try directories()) func directory(_ vector: DirectoryVector) throws {
    let record = try DirectoryRecord(parsing: vector.record.bytes)
    #expect(record.directoryClass.rawValue == vector.class)
    #expect(record.isExplicit == (vector.explicit == 1))
    #expect(record.directoryID == vector.directoryID.bytes)
    #expect(record.bytes == vector.record.bytes)
    var made = DirectoryRecord(
      directoryClass: record.directoryClass, isExplicit: record.isExplicit, directoryID: record.directoryID)
    made.tag = record.tag
    #expect(made == record)
  }

  @Test(arguments: try shifts()) func shiftedTime(_ vector: ShiftVector) throws {
    let shift = try #require(TimeShift(seconds: vector.seconds, nanoseconds: vector.nanoseconds))
    let shown = TimeShift.Time(seconds: vector.shown[0], nanoseconds: UInt32(vector.shown[1]))
    let backing = TimeShift.Time(seconds: vector.backing[0], nanoseconds: UInt32(vector.backing[1]))
    #expect(shift.backing(shown) == backing && shift.shown(backing) == shown)
    #expect(TimeShift.isPossible(at: backing) == (shown != backing))
  }

  /// The sizes that keep a record inside an inode of 256 bytes.
  @Test func sizes() throws {
    #expect(try Set(Self.files().map(\.record.bytes.count)) == [64, 96, 112, 144])
    #expect(try Set(Self.directories().map(\.record.bytes.count)) == [DirectoryRecord.size])
    #expect(try Self.files().filter { $0.class == 2 }.map(\.record.bytes.count) == [96, FileRecord.longest, 96, 96])
  }

  @Test(arguments: try files()) func everyOtherLengthIsRefused(_ vector: FileVector) {
    for count in 0..<200 where count != vector.record.bytes.count {
      let bytes = Array((vector.record.bytes + [UInt8](repeating: 0, count: 200)).prefix(count))
      #expect(throws: FormatError.self) { _ = try FileRecord(parsing: bytes, length: 0) }
    }
  }

  /// A store without marks has none, and only a clean file is dense.
  @Test func marks() throws {
    for vector in try Self.files() where vector.clean != nil {
      #expect(throws: FormatError.self) { _ = try FileRecord(parsing: vector.record.bytes) }
      #expect(FileRecord.hasUnknownVersion(vector.record.bytes, hasMarks: false))
      #expect(!FileRecord.hasUnknownVersion(vector.record.bytes, hasMarks: true))
      var bytes = vector.record.bytes
      bytes[0] = bytes[0] & ~0x20 | 0x10
      #expect(throws: FormatError.self) { _ = try FileRecord(parsing: bytes, length: 0) }
    }
  }

  @Test(arguments: try directories()) func everyOtherLengthIsRefused(_ vector: DirectoryVector) {
    for count in 0..<200 where count != DirectoryRecord.size {
      let bytes = Array((vector.record.bytes + [UInt8](repeating: 0, count: 200)).prefix(count))
      #expect(throws: FormatError.self) { _ = try DirectoryRecord(parsing: bytes) }
    }
  }

  /// One byte changed, and the field that the error names.
  @Test(
    arguments: [
      (1, 0, "class"), (1, 5, "class"), (1, 6, "class"), (1, 8, "class"), (1, 255, "class"), (2, 2, "flags"),
      (2, 3, "flags"),
      (3, 1, "flags"), (2, 128, "flags"), (4, 0, "identifier of a class key"), (1, 2, "wrapped key"),
    ] as [(Int, UInt8, String)])
  func fileField(_ offset: Int, _ value: UInt8, _ field: String) throws {
    var bytes = try Self.files()[0].record.bytes
    bytes[offset] = value
    #expect { _ = try FileRecord(parsing: bytes) } throws: { error in
      guard case FormatError.malformed(.file, let name, _) = error else { return false }
      // Class B's record is longer, so that its wrapped key or its tag is cut off.
      return name == field || (field == "wrapped key" && name == "tag")
    }
  }

  @Test(
    arguments: [(1, 0, "class"), (2, 2, "flags"), (3, 1, "flags"), (4, 1, "reserved"), (7, 1, "reserved")]
      as [(Int, UInt8, String)])
  func directoryField(_ offset: Int, _ value: UInt8, _ field: String) throws {
    var bytes = try Self.directories()[0].record.bytes
    bytes[offset] = value
    #expect { _ = try DirectoryRecord(parsing: bytes) } throws: { error in
      guard case FormatError.malformed(.directory, field, _) = error else { return false }
      return true
    }
  }

  /// A shift of no seconds is none, and a record without one says nothing of it.
  @Test func timeShiftField() throws {
    let vector = try #require(Self.files().first { $0.timeShift != nil && $0.class == 1 })
    var bytes = vector.record.bytes
    (bytes[2], bytes[3]) = (1, 0)
    #expect(throws: FormatError.malformed(record: .file, field: "time shift", problem: "is out of range")) {
      _ = try FileRecord(parsing: bytes)
    }
    bytes = vector.record.bytes
    bytes.replaceSubrange(48..<52, with: [0x00, 0xca, 0x9a, 0x3b])
    #expect(throws: FormatError.malformed(record: .file, field: "time shift", problem: "is out of range")) {
      _ = try FileRecord(parsing: bytes)
    }
    bytes[0] = 1
    #expect(throws: FormatError.malformed(record: .file, field: "flags", problem: "has unknown bits")) {
      _ = try FileRecord(parsing: bytes)
    }
  }

  @Test(arguments: [0, 2, 0x21, 0x40, 0x80, 255] as [UInt8]) func unknownVersion(_ version: UInt8) throws {
    var file = try Self.files()[0].record.bytes
    file[0] = version
    #expect(throws: FormatError.unsupportedVersion(record: .file, version: UInt16(version))) {
      _ = try FileRecord(parsing: file)
    }
    var directory = try Self.directories()[0].record.bytes
    directory[0] = version
    #expect(throws: FormatError.unsupportedVersion(record: .directory, version: UInt16(version))) {
      _ = try DirectoryRecord(parsing: directory)
    }
  }

  /// What a parser accepts is encoded to the same bytes: no two byte strings mean the same.
  @Test func parsersAreExact() throws {
    var generator = RepeatableGenerator(seed: 4)
    let (files, directories) = try (Self.files(), Self.directories())
    for _ in 0..<20_000 {
      var file = files[Int.random(in: 0..<files.count, using: &generator)].record.bytes
      file[Int.random(in: 0..<8, using: &generator)] = UInt8.random(in: 0...8, using: &generator)
      if let record = try? FileRecord(parsing: file, length: 7) { #expect(record.bytes == file) }
      var directory = directories[0].record.bytes
      directory[Int.random(in: 0..<8, using: &generator)] = UInt8.random(in: 0...8, using: &generator)
      if let record = try? DirectoryRecord(parsing: directory) { #expect(record.bytes == directory) }
    }
  }
}
