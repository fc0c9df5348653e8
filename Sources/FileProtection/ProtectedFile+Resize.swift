import Cryptography
import ProtectfsIO
import StoreFormat
import Synchronization
import SystemPackage

extension ProtectedFile {
  /// Sets the length in bytes; what is added reads as zeros.
  ///
  /// - Throws: `EACCES` when the class does not allow it, `EFBIG`, or what the backing file system fails with.
  package func truncate(to newLength: UInt64) throws(Errno) {
    guard newLength <= ContentLength.longest else { throw .fileTooLarge }
    try changing(for: .resize) { (cipher) throws(Errno) in try resize(to: newLength, cipher: cipher) }
  }

  /// Sets the length with the contents lock held alone. A shrink is one ftruncate(2): what its last block holds past the
  /// length is ignored. A growth first gives the old last unit encrypted zeros. `room` in the backing file is taken before the
  /// file has its new length, and after what may cut it.
  func resize(to newLength: UInt64, cipher: ContentsCipher, taking room: Range<UInt64>? = nil) throws(Errno) {
    let oldLength = length.load(ordering: .relaxed)
    do throws(Errno) {
      if newLength > oldLength { try completeLastUnit(upTo: newLength, cipher: cipher) }
      if let room { try descriptor.allocate([.keepSize], offset: room.lowerBound, length: UInt64(room.count)) }
      try descriptor.truncate(to: ContentLength.backing(for: newLength))
    } catch {
      cutBack(to: oldLength)
      throw error
    }
    length.store(newLength, ordering: .releasing)
    if newLength < oldLength { clearLastBlock(cipher: cipher) }
  }

  /// After a shrink: gives the last block zeros past the length, and so the bytes behind it. Nobody reads them, but a power
  /// cut may put a new length on the disk without its data, or take back the length alone, and then they would be data.
  private func clearLastBlock(cipher: ContentsCipher) {
    let length = length.load(ordering: .relaxed)
    guard length != DataUnits.blockEnd(of: length) else { return }
    let start = DataUnits.start(of: length)
    do throws(Errno) {
      try unsafe withScratch { (scratch) throws(Errno) in
        let isHole = try unsafe fill(scratch, withUnitAt: start, oldEnd: length, cipher: cipher)
        if !isHole { try unsafe writeUnit(scratch, at: start, end: length, cipher: cipher) }
      }
    } catch {
      // The file has its new length all the same: on a full disk too, where a copying file system has no room for this.
    }
  }

  /// Fills the file's last unit with encrypted zeros up to its end or `limit`, whichever is first, before the file grows
  /// to `limit` or further. A unit that is a hole, or full, stays as it is; but the bytes that tell the length must not
  /// become data of the next unit: where they lie in it, the file is cut to the end of this one, and is that long until it has
  /// grown. It may also be longer; its length is told when it has grown.
  func completeLastUnit(upTo limit: UInt64, cipher: ContentsCipher) throws(Errno) {
    let oldLength = length.load(ordering: .relaxed)
    guard !DataUnits.isAligned(oldLength) else { return }
    let start = DataUnits.start(of: oldLength)
    let end = min(start + DataUnits.size, limit)
    guard end > oldLength else { return }
    try unsafe withScratch { (scratch) throws(Errno) in
      let isHole = try unsafe fill(scratch, withUnitAt: start, oldEnd: oldLength, cipher: cipher)
      if !isHole { try unsafe writeUnit(scratch, at: start, end: end, cipher: cipher) }
    }
    let next = start + DataUnits.size
    if ContentLength.backing(for: oldLength) > next, limit > next { try descriptor.truncate(to: next) }
  }

  /// Allocates, punches or zeroes a range (fallocate(2)).
  ///
  /// - Throws: `EACCES` when the class does not allow it, `EOPNOTSUPP` for modes that would move data to other units
  ///   (they would need encrypting anew), or what the backing file system fails with.
  package func allocate(_ mode: AllocationMode, offset: UInt64, length count: UInt64) throws(Errno) {
    let end = offset + count
    guard count > 0 else { throw .invalidArgument }
    guard end <= ContentLength.longest else { throw .fileTooLarge }
    try changing(for: .resize) { (cipher) throws(Errno) in
      let oldLength = length.load(ordering: .relaxed)
      switch mode {
      case [] where end > oldLength:
        try resize(to: end, cipher: cipher, taking: offset..<ContentLength.backing(for: end))
      case [], [.keepSize]:
        try descriptor.allocate([.keepSize], offset: offset, length: ContentLength.backing(for: end) - offset)
      case [.punchHole, .keepSize], [.zeroRange, .keepSize]:
        try zero(offset..<end, mode: mode, cipher: cipher)
      case [.zeroRange]:
        try zero(offset..<end, mode: [.zeroRange, .keepSize], cipher: cipher)
        if end > oldLength { try resize(to: end, cipher: cipher, taking: max(offset, oldLength)..<end) }
      default:
        throw .notSupportedOnSocket
      }
    }
  }

  /// Makes a range read as zeros: whole units become holes, parts of units encrypted zeros.
  private func zero(_ range: Range<UInt64>, mode: AllocationMode, cipher: ContentsCipher) throws(Errno) {
    let fileEnd = length.load(ordering: .relaxed)
    let end = min(range.upperBound, fileEnd)
    guard range.lowerBound < end else {
      if mode.contains(.zeroRange) {
        try descriptor.allocate([.keepSize], offset: range.lowerBound, length: UInt64(range.count))
      }
      return
    }
    let firstWhole = DataUnits.end(of: range.lowerBound)
    let lastWhole = end == fileEnd ? DataUnits.end(of: end) : DataUnits.start(of: end)
    if range.lowerBound < min(firstWhole, end) {
      try zeroPart(range.lowerBound..<min(firstWhole, end), cipher: cipher)
    }
    if firstWhole < lastWhole {
      try descriptor.allocate(mode, offset: firstWhole, length: lastWhole - firstWhole)
    }
    if lastWhole < end, lastWhole >= firstWhole {
      try zeroPart(lastWhole..<end, cipher: cipher)
    }
  }

  private func zeroPart(_ range: Range<UInt64>, cipher: ContentsCipher) throws(Errno) {
    let start = DataUnits.start(of: range.lowerBound)
    let oldEnd = min(length.load(ordering: .relaxed), start + DataUnits.size)
    try unsafe withScratch { (scratch) throws(Errno) in
      if try unsafe fill(scratch, withUnitAt: start, oldEnd: oldEnd, cipher: cipher) { return }
      for index in Int(range.lowerBound - start)..<Int(range.upperBound - start) { unsafe scratch[index] = 0 }
      try unsafe writeUnit(scratch, at: start, end: oldEnd, cipher: cipher)
    }
  }

  /// Finds data or a hole at or after an offset (lseek(2)). Needs no key: holes are visible in the backing file.
  ///
  /// - Throws: `ENXIO` past the end of the file, or, for data, when none follows.
  package func seek(to offset: UInt64, _ origin: SeekOrigin) throws(Errno) -> UInt64 {
    try contents.read { () throws(Errno) in
      let end = length.load(ordering: .relaxed)
      guard offset < end else { throw .noSuchAddressOrDevice }
      let found = try descriptor.seek(to: DataUnits.start(of: offset), origin)
      if origin == .hole { return min(max(DataUnits.end(of: found), offset), end) }
      guard found < end else { throw .noSuchAddressOrDevice }
      return max(DataUnits.start(of: found), offset)
    }
  }

  /// Writes data and metadata back to the device. Needs no key.
  package func synchronize(dataOnly: Bool) throws(Errno) {
    let changes = recordChanges.load(ordering: .acquiring)
    if dataOnly, durableRecordChanges.load(ordering: .acquiring) >= changes { return try descriptor.synchronizeData() }
    try descriptor.synchronize()
    durableRecordChanges.max(changes, ordering: .acquiringAndReleasing)
  }

  /// The backing file's status.
  package func status() throws(Errno) -> Status {
    try descriptor.status()
  }
}
