/// The arithmetic of data units: contents are encrypted in units of 4096 bytes, and in AES blocks of 16 inside them.
///
/// A unit's number is its tweak (IEEE 1619-2018, section 5.1). The last unit of a file may be shorter, but is a
/// multiple of 16 bytes; how the true length is kept is `ContentLength`'s matter.
package enum DataUnits {
  /// Bytes in a data unit.
  package static let size: UInt64 = 4096
  /// Bytes in an AES block.
  package static let blockSize: UInt64 = 16

  /// The unit that holds a byte.
  package static func unit(of offset: UInt64) -> UInt64 { offset / size }

  /// The start of the unit that holds a byte.
  package static func start(of offset: UInt64) -> UInt64 { offset & ~(size - 1) }

  /// The first unit boundary at or after an offset.
  package static func end(of offset: UInt64) -> UInt64 { (offset + size - 1) & ~(size - 1) }

  /// Whether an offset lies on a unit boundary.
  package static func isAligned(_ offset: UInt64) -> Bool { offset & (size - 1) == 0 }

  /// The first block boundary at or after an offset.
  package static func blockEnd(of offset: UInt64) -> UInt64 { (offset + blockSize - 1) & ~(blockSize - 1) }

  /// How much of a unit as read from the backing file was ever written: all but the blocks of zeros at its end, and
  /// nothing of a hole. No encrypted block is all zeros, but for one in 2¹²⁸.
  ///
  /// A unit that was written in part has such blocks behind it when a power cut left the length of what was appended, and
  /// not the data.
  package static func writtenCount(_ bytes: UnsafeRawBufferPointer) -> Int {
    var end = bytes.count
    while end >= 8, unsafe bytes.loadUnaligned(fromByteOffset: end - 8, as: UInt64.self) == 0 { end -= 8 }
    return Int(blockEnd(of: UInt64(end)))
  }
}
