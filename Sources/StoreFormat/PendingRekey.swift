/// What a file's record says of a rekey that has not come to its end: the key that the file had before, and how far the
/// contents are under the new one.
///
/// ```
///  0 40  old file key, wrapped under the new one
/// 40  8  boundary: units below it are under the new key, the others under the old one
/// ```
package struct PendingRekey: Sendable, Equatable {
  /// The length of a wrapped old key, in bytes.
  package static let wrappedKeySize = 40
  /// The highest boundary: the data units of the longest file, in units of 4096 bytes.
  package static let highestBoundary: UInt64 = 1 << 51

  /// The old file key, wrapped under a key that derives from the new one. It stays as long as the rekey does, and no other
  /// rekey has the same: it is what a rekey is known by.
  package let wrappedOldKey: [UInt8]
  /// The number of the first data unit that is under the old key.
  package var boundary: UInt64
  /// Whether the class was raised once more meanwhile, so that another rekey is to follow.
  package var isFollowed: Bool

  package init(wrappedOldKey: [UInt8], boundary: UInt64 = 0, isFollowed: Bool = false) {
    self.wrappedOldKey = wrappedOldKey
    self.boundary = boundary
    self.isFollowed = isFollowed
  }

  init(_ reader: inout ByteReader, isFollowed: Bool) throws(FormatError) {
    wrappedOldKey = try reader.read(Self.wrappedKeySize, "wrapped old key")
    boundary = try reader.readInteger("boundary")
    try reader.require(boundary <= Self.highestBoundary, "boundary", "is past the longest file")
    self.isFollowed = isFollowed
  }

  var bytes: [UInt8] {
    var bytes = wrappedOldKey
    bytes.append(integer: boundary)
    return bytes
  }
}
