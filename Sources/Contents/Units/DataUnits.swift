/// The arithmetic of data units. Contents are encrypted in units of 4096 bytes, and in AES blocks of 16 bytes inside
/// them.
///
/// A unit's number is its tweak (IEEE 1619-2018, section 5.1). The last unit of a file may be shorter, but is a
/// multiple of 16 bytes. The backing file's length encodes the true length.
enum DataUnits {
  /// Bytes in a data unit.
  static let size: UInt64 = 4096
  /// Bytes in an AES block.
  static let blockSize: UInt64 = 16

  /// The unit that contains a byte.
  static func unit(of offset: UInt64) -> UInt64 { offset / size }

  /// The start of the unit that contains a byte.
  static func start(of offset: UInt64) -> UInt64 { offset & ~(size - 1) }

  /// The first unit boundary at or after an offset.
  static func end(of offset: UInt64) -> UInt64 { (offset + size - 1) & ~(size - 1) }

  /// Whether an offset is on a unit boundary.
  static func isAligned(_ offset: UInt64) -> Bool { offset & (size - 1) == 0 }

  /// The first block boundary at or after an offset.
  static func blockEnd(of offset: UInt64) -> UInt64 { (offset + blockSize - 1) & ~(blockSize - 1) }

  /// How many bytes of a unit of the backing file were ever written: all but the blocks of zeros at its end, and 0 for
  /// a hole. An encrypted block is all zeros with a probability of 2⁻¹²⁸.
  ///
  /// A unit that was written in part has blocks of zeros behind it if a power cut left the length of appended data, but
  /// not the data.
  static func writtenCount(_ bytes: UnsafeRawBufferPointer) -> Int {
    var end = bytes.count
    while end >= 8, unsafe bytes.loadUnaligned(fromByteOffset: end - 8, as: UInt64.self) == 0 { end -= 8 }
    return Int(blockEnd(of: UInt64(end)))
  }
}

// The length of the backing file.
//
// XTS cannot encrypt a tail of less than 16 bytes. With L = 16·q + r, the backing file is 16·q bytes long if r = 0,
// else 16·(q + 1) + r: the contents padded to whole blocks, then r bytes that contain no data and are holes.
extension DataUnits {
  /// See ``ContentsLayout/longest``.
  static let longest = UInt64(Int64.max) - 31

  /// See ``ContentsLayout/backingLength(for:)``.
  static func backingLength(for length: UInt64) -> UInt64 {
    length % 16 == 0 ? length : length + 16
  }

  /// See ``ContentsLayout/length(ofBacking:)``.
  static func length(ofBacking length: UInt64) -> UInt64? {
    if length % 16 == 0 { return length }
    return length > 16 ? length - 16 : nil
  }
}
