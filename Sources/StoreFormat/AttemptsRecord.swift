/// The bytes of `.protectfs/attempts`: the number of wrong passcodes since the last right one.
///
/// The byte table is in Documentation/FORMAT.md. If the file does not exist, there were none.
package struct AttemptsRecord: Sendable, Equatable {
  /// The first 8 bytes.
  package static let magic = Array("protkatt".utf8)
  /// The version that this module reads and writes.
  package static let version: UInt16 = 2
  /// The length of a record, in bytes.
  package static let size = 8 + 2 + 4 + 8 + 32
  /// The content of a file that stands for no attempts: as many zeros as a record has bytes.
  package static let blank = [UInt8](repeating: 0, count: size)

  /// The number of wrong passcodes.
  package var count: UInt32
  /// The time of the last one, in seconds since 1970.
  package var lastTime: UInt64
  /// HMAC-SHA256 over ``bytesBeforeTag``, under a key that belongs to the device.
  package var tag: [UInt8]

  /// A record whose tag is still zeros.
  package init(count: UInt32, lastTime: UInt64) {
    self.count = count
    self.lastTime = lastTime
    tag = [UInt8](repeating: 0, count: 32)
  }

  /// Parses a record. The caller checks the tag.
  package init(parsing bytes: [UInt8]) throws(FormatError) {
    var reader = ByteReader(bytes, record: .attempts)
    try reader.readBeginning(magic: Self.magic, version: Self.version)
    count = try reader.readInteger("count")
    try reader.require(count > 0, "count", "is 0")
    lastTime = try reader.readInteger("time")
    try reader.require(lastTime <= UInt64(Int64.max), "time", "is too late")
    tag = try reader.read(32, "tag")
    try reader.finish()
  }

  /// The bytes that the tag authenticates.
  package var bytesBeforeTag: [UInt8] {
    var bytes = Self.magic
    bytes.append(integer: Self.version)
    bytes.append(integer: count)
    bytes.append(integer: lastTime)
    return bytes
  }

  /// The record as it is stored.
  package var bytes: [UInt8] { bytesBeforeTag + tag }
}
