import Cryptography
import ProtectfsIO
import Synchronization
import SystemPackage

extension PageContents {
  func resize(to newLength: UInt64, cipher: ContentsCipher, taking room: Range<UInt64>?) throws(Errno) {
    if newLength < length { return try shrink(to: newLength, cipher: cipher) }
    try recover(cipher)
    let oldLength = length
    if newLength > oldLength { isDense = false }
    do throws(Errno) {
      try growing(to: newLength, cipher: cipher) { () throws(Errno) in
        guard let room else { return }
        try backing.descriptor.allocate([.keepSize], offset: room.lowerBound, length: UInt64(room.count))
      }
    } catch {
      cutBack(to: oldLength)
      throw error
    }
  }

  /// A shrink needs no recovery first: what it keeps is put right after it, or before the next change.
  private func shrink(to newLength: UInt64, cipher: ContentsCipher) throws(Errno) {
    let (wasRecovered, wasDense) = (isRecovered, isDense)
    needsRecovery()
    isDense = false
    try cut(to: newLength)
    backing.length = newLength
    isDense = wasDense || isKnownEmpty
    guard wasRecovered || newLength == 0 else { return }
    // If that fails, the file keeps its new length.
    try? recovering { () throws(Errno) in
      _ = try clearLastPage(cipher)
      _ = try clearLastEnds(cipher)
    }
  }

  /// Gives the backing file the length for a shorter length of the contents, with a hole behind the last page.
  func cut(to newLength: UInt64) throws(Errno) {
    let backingLength = PageLayout.backingLength(for: newLength)
    let removed = try removePage(under: backingLength)
    do throws(Errno) {
      try backing.descriptor.truncate(to: backingLength)
    } catch {
      // On a network file system, a call that fails may have been carried out. What it has cut off does not come back.
      guard let size = try? backing.descriptor.status().size else {
        backing.needsLengthRepair.store(true, ordering: .releasing)
        throw error
      }
      if size == backingLength { return }
      if let removed {
        let start = DataUnits.start(of: backingLength)
        try? finishWriteBack(of: start..<start + PageLayout.size)
        try? backing.descriptor.write(removed, at: start)
      }
      throw error
    }
  }

  /// Makes the page inside which a length ends a hole. Returns what was there; `nil` where it is one, or there is none.
  @discardableResult
  func removePage(under backingLength: UInt64) throws(Errno) -> [UInt8]? {
    let start = DataUnits.start(of: backingLength)
    guard start < backingLength else { return nil }
    let page = try backing.descriptor.readAll(from: start, limit: Int(PageLayout.size))
    let isZero = page.allSatisfy { $0 == 0 }
    // There may be something behind the end, which nobody sees yet.
    if isZero, try nextData(from: start).map({ $0 >= backingLength }) ?? true { return nil }
    do throws(Errno) {
      try punch(start..<start + PageLayout.size)
    } catch {
      guard error == .notSupportedOnSocket else {
        // It may have been carried out.
        if !isZero { try? backing.descriptor.write(page, at: start) }
        throw error
      }
      if isZero { return nil }
      // Zeros read as a hole.
      try finishWriteBack(of: start..<start + PageLayout.size)
      try backing.descriptor.write([UInt8](repeating: 0, count: page.count), at: start)
    }
    return page
  }

  /// Makes a page a hole that is written up to an offset, if it was one before: there are zeros behind the offset.
  func removeTornPage(at offset: UInt64) {
    let start = DataUnits.start(of: offset)
    guard start < offset, let page = try? backing.descriptor.readAll(from: start, limit: Int(PageLayout.size)),
      page.count == Int(PageLayout.size), page[Int(offset - start)...].allSatisfy({ $0 == 0 })
    else { return }
    isDense = false
    try? punch(start..<start + PageLayout.size)
  }

  /// Makes whole pages of the backing file holes.
  func punch(_ range: Range<UInt64>, mode: AllocationMode = [.punchHole, .keepSize]) throws(Errno) {
    try backing.descriptor.allocate(mode, offset: range.lowerBound, length: range.upperBound - range.lowerBound)
  }
}
