/// The part of a file's record on a pending rekey: the file's previous key, and how much of the contents is under the
/// new one.
///
/// ```
///  0 40  old file key, wrapped under the new one
/// 40  8  boundary: units below it are under the new key, the others under the old one
/// ```
package struct PendingRekey: Sendable, Equatable {
  /// The length of a wrapped old key, in bytes.
  package static let wrappedKeySize = 40
  /// The maximum boundary: the number of data units of 4096 bytes in the longest file.
  package static let highestBoundary: UInt64 = 1 << 51

  /// The old file key, wrapped under a key that is derived from the new one. It stays the same during the rekey, and no
  /// other rekey has the same, so it identifies the rekey.
  package let wrappedOldKey: [UInt8]
  /// The number of the first data unit under the old key.
  package var boundary: UInt64
  /// Whether the class was raised again meanwhile, so that another rekey follows.
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
