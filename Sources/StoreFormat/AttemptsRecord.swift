/// The bytes of `.protectfs/attempts`: the wrong passcodes since the last right one.
///
/// The byte table is in Documentation/FORMAT.md. Where there is no such file, there were none.
package struct AttemptsRecord: Sendable, Equatable {
  /// The first 8 bytes.
  package static let magic = Array("protkatt".utf8)
  /// The version this module reads and writes.
  package static let version: UInt16 = 1
  /// How many fingerprints are kept; older ones go.
  package static let mostFingerprints = 16
  /// The length of the longest record, in bytes.
  package static let longest = shortest + 2 * mostFingerprints
  /// The length of the shortest.
  package static let shortest = 8 + 2 + 4 + 8 + 1 + 32
  /// What stands for none where there is a file: as many zeros as the shortest record has bytes.
  package static let blank = [UInt8](repeating: 0, count: shortest)

  /// How many passcodes were wrong, the same one counted once.
  package var count: UInt32
  /// When the last of them was tried, in seconds since 1970.
  package var lastTime: UInt64
  /// 16 bits of each, which tell whether one is tried again, and little else; the latest last.
  package var fingerprints: [UInt16]
  /// HMAC-SHA256 over ``bytesBeforeTag`` under a key that belongs to the device.
  package var tag: [UInt8]

  /// A record whose tag is still zeros.
  package init(count: UInt32, lastTime: UInt64, fingerprints: [UInt16]) {
    self.count = count
    self.lastTime = lastTime
    self.fingerprints = fingerprints
    tag = [UInt8](repeating: 0, count: 32)
  }

  /// Reads a record. Whether its tag is right is for the caller to check.
  package init(parsing bytes: [UInt8]) throws(FormatError) {
    var reader = ByteReader(bytes, record: .attempts)
    let magic = try reader.read(8, "magic")
    try reader.require(magic == Self.magic, "magic", "is not 'protkatt'")
    let version: UInt16 = try reader.readInteger("version")
    guard version == Self.version else { throw .unsupportedVersion(record: .attempts, version: version) }
    count = try reader.readInteger("count")
    try reader.require(count > 0, "count", "is 0")
    lastTime = try reader.readInteger("time")
    try reader.require(lastTime <= UInt64(Int64.max), "time", "is too late")
    let number: UInt8 = try reader.readInteger("number of fingerprints")
    try reader.require(number <= Self.mostFingerprints, "number of fingerprints", "is more than 16")
    try reader.require(number <= count, "number of fingerprints", "is more than there were passcodes")
    fingerprints = []
    for _ in 0..<number { fingerprints.append(try reader.readInteger("fingerprint")) }
    tag = try reader.read(32, "tag")
    try reader.finish()
  }

  /// What the tag authenticates.
  package var bytesBeforeTag: [UInt8] {
    var bytes = Self.magic
    bytes.append(integer: Self.version)
    bytes.append(integer: count)
    bytes.append(integer: lastTime)
    bytes.append(UInt8(fingerprints.count))
    for fingerprint in fingerprints { bytes.append(integer: fingerprint) }
    return bytes
  }

  /// The record as it is stored.
  package var bytes: [UInt8] { bytesBeforeTag + tag }
}
