/// A position in the bytes of a record. Every read is bounded, and its error names the field.
struct ByteReader {
  let record: RecordKind
  private let bytes: [UInt8]
  private(set) var position = 0

  init(_ bytes: [UInt8], record: RecordKind) {
    self.bytes = bytes
    self.record = record
  }

  /// Reads the beginning of a file of the store: its magic and its version, of which only one is known.
  mutating func readBeginning(magic: [UInt8], version: UInt16) throws(FormatError) {
    let found = try read(magic.count, "magic")
    try require(found == magic, "magic", "is not '\(String(decoding: magic, as: UTF8.self))'")
    let foundVersion: UInt16 = try readInteger("version")
    guard foundVersion == version else { throw .unsupportedVersion(record: record, version: foundVersion) }
  }

  /// The next `count` bytes.
  mutating func read(_ count: Int, _ field: String) throws(FormatError) -> [UInt8] {
    guard count <= bytes.count - position else { throw malformed(field, "is cut off") }
    defer { position += count }
    return Array(bytes[position..<position + count])
  }

  /// The next integer, little-endian.
  mutating func readInteger<Value: FixedWidthInteger & UnsignedInteger>(
    _ field: String, as type: Value.Type = Value.self
  ) throws(FormatError) -> Value {
    var value: Value = 0
    for (index, byte) in try read(Value.bitWidth / 8, field).enumerated() {
      value |= Value(byte) << (8 * index)
    }
    return value
  }

  /// Checks that nothing is left.
  func finish() throws(FormatError) {
    guard position == bytes.count else { throw malformed("length", "is \(bytes.count - position) bytes too long") }
  }

  /// An error in a field of this record.
  func malformed(_ field: String, _ problem: String) -> FormatError {
    .malformed(record: record, field: field, problem: problem)
  }

  /// Throws unless a condition on a field holds.
  func require(_ condition: Bool, _ field: String, _ problem: String) throws(FormatError) {
    guard condition else { throw malformed(field, problem) }
  }
}

extension [UInt8] {
  /// Appends an integer, little-endian.
  mutating func append<Value: FixedWidthInteger & UnsignedInteger>(integer value: Value) {
    for index in 0..<Value.bitWidth / 8 { append(UInt8(truncatingIfNeeded: value >> (8 * index))) }
  }
}
