import ProtectfsIO
import StoreFormat
import Synchronization
import SystemPackage

extension UnitContents {
  /// Reads and decrypts whole units.
  ///
  /// Where the file may end, one block more than requested is read. A backing file may end with up to 15 bytes that
  /// contain no data, so only a whole block past a unit proves that the unit is full.
  func plaintext(
    at offset: UInt64, count: Int, of length: UInt64, into buffer: UnsafeMutableRawBufferPointer,
    cipher: ContentsCipher,
    _ overlay: Overlay?
  ) throws(Errno) -> UnsafeRawBufferPointer {
    var cipher = cipher
    let start = DataUnits.start(of: offset)
    let wanted = Int(DataUnits.end(of: offset + UInt64(count)) - start)
    let isInside = start + UInt64(wanted) <= length
    let probe = isInside ? wanted : wanted + Int(DataUnits.blockSize)
    let received = try unsafe backing.descriptor.read(into: .init(rebasing: buffer[..<probe]), at: start)
    if let overlay {
      cipher = try unsafe self.overlay(overlay(), on: .init(rebasing: buffer[..<received]), from: start, cipher)
    }
    var available = wanted
    if received < probe {
      guard let length = DataUnits.length(ofBacking: start + UInt64(received)) else { throw .ioError }
      available = length > start ? min(wanted, Int(length - start)) : 0
    }
    let first = Int(offset - start)
    let last = min(first + count, available)
    guard last > first else { return unsafe UnsafeRawBufferPointer(rebasing: buffer[..<0]) }
    let blocks = Int(DataUnits.blockEnd(of: UInt64(available)))
    try unsafe cipher.decrypt(.init(rebasing: buffer[..<blocks]), firstUnit: DataUnits.unit(of: start))
    // Units are decrypted whole, so the bytes outside the requested range are wiped.
    unsafe Memory.wipe(.init(rebasing: buffer[..<first]))
    unsafe Memory.wipe(.init(rebasing: buffer[last..<blocks]))
    return unsafe UnsafeRawBufferPointer(rebasing: buffer[first..<last])
  }
}
