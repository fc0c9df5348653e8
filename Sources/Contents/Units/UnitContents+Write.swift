import ProtectfsIO
import SystemPackage

extension UnitContents {
  func write(
    _ bytes: UnsafeMutableRawBufferPointer, at offset: UInt64, cipher: ContentsCipher, keepingPart: Bool,
    whenFull: () -> Bool
  ) throws(Errno) {
    let oldLength = length
    var position = offset
    do throws(Errno) {
      try unsafe writeParts(bytes, at: offset, position: &position, cipher: cipher, whenFull)
    } catch {
      cutBack(to: keepingPart && position > offset ? max(position, oldLength) : oldLength, cipher: cipher)
      throw error
    }
  }

  /// First comes the part of a unit at the start; then whole units, together with an end that reaches the end of the
  /// file, or the part of a unit at the end. `position` advances with each.
  private func writeParts(
    _ bytes: UnsafeMutableRawBufferPointer, at offset: UInt64, position: inout UInt64, cipher: ContentsCipher,
    _ whenFull: () -> Bool
  ) throws(Errno) {
    let end = offset + UInt64(bytes.count)
    if DataUnits.start(of: offset) > length {
      try completeLastUnit(upTo: offset, cipher: cipher)
    }
    if !DataUnits.isAligned(position) {
      let part = min(DataUnits.end(of: position), end)
      try unsafe merge(.init(rebasing: bytes[..<Int(part - position)]), at: position, cipher: cipher)
      position = part
    }
    let isTail = end >= length
    let wholeEnd = isTail ? end : DataUnits.start(of: end)
    if wholeEnd > position {
      let start = position
      try unsafe writeWhole(bytes, from: offset, start..<wholeEnd, position: &position, cipher: cipher, whenFull)
    }
    if position < end {
      try unsafe merge(.init(rebasing: bytes[Int(position - offset)...]), at: position, cipher: cipher)
      position = end
    }
  }

  /// Writes units that are replaced entirely. The last may end inside a block: it is padded with zeros, and followed by
  /// the bytes that make the backing length encode the true one.
  private func writeWhole(
    _ bytes: UnsafeMutableRawBufferPointer, from offset: UInt64, _ range: Range<UInt64>, position: inout UInt64,
    cipher: ContentsCipher, _ whenFull: () -> Bool
  ) throws(Errno) {
    let first = Int(range.lowerBound - offset)
    let count = Int(range.upperBound - range.lowerBound)
    let padded = Int(DataUnits.blockEnd(of: UInt64(count)))
    let total = Int(DataUnits.backingLength(for: range.upperBound) - range.lowerBound)
    let start = unsafe bytes.baseAddress! + first
    let whole = unsafe UnsafeMutableRawBufferPointer(start: start, count: total)
    for index in count..<whole.count { unsafe whole[index] = 0 }
    try unsafe cipher.encrypt(.init(rebasing: whole[..<padded]), firstUnit: DataUnits.unit(of: range.lowerBound))
    // Each block of a unit that was written in part is old or new, in a hole too.
    var written = 0
    do throws(Errno) {
      do throws(Errno) {
        try unsafe backing.descriptor.write(UnsafeRawBufferPointer(whole), at: range.lowerBound, written: &written)
      } catch {
        guard error.isOutOfSpace, whenFull() else { throw error }
        try unsafe backing.descriptor.write(UnsafeRawBufferPointer(whole), at: range.lowerBound, written: &written)
      }
    } catch {
      position = min(DataUnits.start(of: range.lowerBound + UInt64(written)), range.upperBound)
      throw error
    }
    position = range.upperBound
    try grow(to: range.upperBound)
  }

  /// Writes part of a unit: reads the rest, and writes the whole unit. A hole becomes a unit of encrypted zeros.
  private func merge(
    _ bytes: UnsafeMutableRawBufferPointer, at offset: UInt64, cipher: ContentsCipher
  ) throws(Errno) {
    let start = DataUnits.start(of: offset)
    let end = offset + UInt64(bytes.count)
    let oldLength = length
    let oldEnd = min(max(oldLength, start), start + DataUnits.size)
    let newEnd = max(oldEnd, end)
    try unsafe withScratch { (scratch) throws(Errno) in
      try unsafe fill(scratch, withUnitAt: start, oldEnd: oldEnd, cipher: cipher)
      let target = unsafe UnsafeMutableRawBufferPointer(rebasing: scratch[Int(offset - start)...])
      unsafe target.copyMemory(from: UnsafeRawBufferPointer(bytes))
      try unsafe writeUnit(scratch, at: start, end: newEnd, cipher: cipher)
    }
    try grow(to: newEnd)
  }

  /// Encrypts the unit in `scratch` up to `end`, an offset in the file, and writes it. If the file ends there, the
  /// bytes that encode the length follow.
  func writeUnit(
    _ scratch: UnsafeMutableRawBufferPointer, at start: UInt64, end: UInt64, cipher: ContentsCipher
  ) throws(Errno) {
    let padded = Int(DataUnits.blockEnd(of: end) - start)
    let isLast = end >= length && end < start + DataUnits.size
    let total = isLast ? Int(DataUnits.backingLength(for: end) - start) : padded
    try unsafe cipher.encrypt(.init(rebasing: scratch[..<padded]), firstUnit: DataUnits.unit(of: start))
    for index in padded..<total { unsafe scratch[index] = 0 }
    try unsafe backing.descriptor.write(UnsafeRawBufferPointer(rebasing: scratch[..<total]), at: start)
  }

  /// Fills `scratch` with the plaintext of a unit up to `oldEnd`, and zeros behind it. Returns whether the unit was a
  /// hole.
  @discardableResult
  func fill(
    _ scratch: UnsafeMutableRawBufferPointer, withUnitAt start: UInt64, oldEnd: UInt64, cipher: ContentsCipher
  ) throws(Errno) -> Bool {
    unsafe scratch.initializeMemory(as: UInt8.self, repeating: 0)
    let blocks = Int(DataUnits.blockEnd(of: oldEnd) - start)
    guard blocks > 0 else { return true }
    let unit = unsafe UnsafeMutableRawBufferPointer(rebasing: scratch[..<blocks])
    guard try unsafe backing.descriptor.read(into: unit, at: start) == blocks else { throw .ioError }
    if unsafe DataUnits.writtenCount(UnsafeRawBufferPointer(unit)) == 0 { return true }
    try unsafe cipher.decrypt(unit, firstUnit: DataUnits.unit(of: start))
    for index in Int(oldEnd - start)..<blocks { unsafe scratch[index] = 0 }
    return false
  }

  /// Increases the length after a write past it. Backing lengths do not always grow with the plaintext's (5 bytes take
  /// 21, 16 take 16), so what was behind the old end may have to be cut off.
  private func grow(to end: UInt64) throws(Errno) {
    let oldLength = length
    guard end > oldLength else { return }
    let backingLength = DataUnits.backingLength(for: end)
    if backingLength < DataUnits.backingLength(for: oldLength) {
      try backing.descriptor.truncate(to: backingLength)
    }
    backing.length = end
  }
}
