import ProtectfsIO
import Synchronization
import SystemPackage

extension UnitContents {
  /// A shrink is one ftruncate(2): what the last block contains past the length is ignored. A growth first fills the
  /// old last unit with encrypted zeros.
  func resize(to newLength: UInt64, cipher: ContentsCipher, taking room: Range<UInt64>?) throws(Errno) {
    let oldLength = length
    do throws(Errno) {
      if newLength > oldLength { try completeLastUnit(upTo: newLength, cipher: cipher) }
      if let room { try backing.descriptor.allocate([.keepSize], offset: room.lowerBound, length: UInt64(room.count)) }
      try backing.descriptor.truncate(to: DataUnits.backingLength(for: newLength))
    } catch {
      // On a network file system, a call that fails may have been carried out. What it has cut off does not come back.
      let isDone =
        newLength < oldLength && (try? backing.descriptor.status().size) == DataUnits.backingLength(for: newLength)
      if !isDone {
        cutBack(to: oldLength, cipher: cipher)
        throw error
      }
    }
    backing.length = newLength
    guard newLength < oldLength else { return }
    do throws(Errno) {
      try clearLastBlock(cipher: cipher)
    } catch {
      // The file keeps its new length. This is tried again before the next change.
      backing.needsClearing.store(true, ordering: .releasing)
    }
  }

  /// Fills the file's last unit with encrypted zeros up to its end or to `limit`, whichever is first, before the file
  /// grows to `limit` or further.
  ///
  /// A unit that is a hole or full stays as it is. The bytes that encode the length must not become data of the next
  /// unit: if they lie in it, the file is cut at the end of this unit, and keeps that length until it has grown. The
  /// backing file may be longer meanwhile.
  func completeLastUnit(upTo limit: UInt64, cipher: ContentsCipher) throws(Errno) {
    let oldLength = length
    guard !DataUnits.isAligned(oldLength) else { return }
    let start = DataUnits.start(of: oldLength)
    let end = min(start + DataUnits.size, limit)
    guard end > oldLength else { return }
    try unsafe withScratch { (scratch) throws(Errno) in
      let isHole = try unsafe fill(scratch, withUnitAt: start, oldEnd: oldLength, cipher: cipher)
      if !isHole { try unsafe writeUnit(scratch, at: start, end: end, cipher: cipher) }
    }
    let next = start + DataUnits.size
    if DataUnits.backingLength(for: oldLength) > next, limit > next { try backing.descriptor.truncate(to: next) }
  }

  func allocate(_ mode: AllocationMode, _ range: Range<UInt64>, cipher: ContentsCipher) throws(Errno) {
    let (oldLength, end) = (length, range.upperBound)
    let room = range.lowerBound..<DataUnits.backingLength(for: end)
    switch mode {
    case [] where end > oldLength:
      try resize(to: end, cipher: cipher, taking: room)
    case [], [.keepSize]:
      try backing.descriptor.allocate([.keepSize], offset: room.lowerBound, length: UInt64(room.count))
    case [.punchHole, .keepSize], [.zeroRange, .keepSize]:
      try zero(range, mode: mode, cipher: cipher)
    case [.zeroRange]:
      try zero(range, mode: [.zeroRange, .keepSize], cipher: cipher)
      if end > oldLength { try resize(to: end, cipher: cipher, taking: max(range.lowerBound, oldLength)..<end) }
    default:
      throw .notSupportedOnSocket
    }
  }

  /// Makes a range read as zeros: whole units become holes, parts of units become encrypted zeros.
  private func zero(_ range: Range<UInt64>, mode: AllocationMode, cipher: ContentsCipher) throws(Errno) {
    guard range.lowerBound < length else {
      if mode.contains(.zeroRange) {
        try backing.descriptor.allocate([.keepSize], offset: range.lowerBound, length: UInt64(range.count))
      }
      return
    }
    try forEachPart(of: range) { (whole) throws(Errno) in
      try backing.descriptor.allocate(mode, offset: whole.lowerBound, length: UInt64(whole.count))
    } part: { (part) throws(Errno) in
      try zeroPart(part, cipher: cipher)
    }
  }

  private func zeroPart(_ range: Range<UInt64>, cipher: ContentsCipher) throws(Errno) {
    let start = DataUnits.start(of: range.lowerBound)
    let oldEnd = min(length, start + DataUnits.size)
    try unsafe withScratch { (scratch) throws(Errno) in
      if try unsafe fill(scratch, withUnitAt: start, oldEnd: oldEnd, cipher: cipher) { return }
      for index in Int(range.lowerBound - start)..<Int(range.upperBound - start) { unsafe scratch[index] = 0 }
      try unsafe writeUnit(scratch, at: start, end: oldEnd, cipher: cipher)
    }
  }

  func seek(to offset: UInt64, _ origin: SeekOrigin, of end: UInt64) throws(Errno) -> UInt64 {
    guard offset < end else { throw .noSuchAddressOrDevice }
    let found = try backing.descriptor.seek(to: DataUnits.start(of: offset), origin)
    if origin == .hole { return min(max(DataUnits.end(of: found), offset), end) }
    guard found < end else { throw .noSuchAddressOrDevice }
    return max(DataUnits.start(of: found), offset)
  }
}
