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

  /// Whether a unit as read from the backing file is a hole: all zeros. No encrypted unit is, but for one in 2¹²⁸.
  package static func isHole(_ bytes: UnsafeRawBufferPointer) -> Bool {
    var rest = unsafe bytes
    while rest.count >= 8 {
      if unsafe rest.loadUnaligned(as: UInt64.self) != 0 { return false }
      unsafe rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(8))
    }
    return unsafe rest.allSatisfy { $0 == 0 }
  }
}
