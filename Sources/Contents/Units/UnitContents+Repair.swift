import ProtectfsIO
import Synchronization
import SystemPackage

// What a failed change leaves behind the end of a file.
extension UnitContents {
  /// Gives the file its accepted length after a failed change, and takes away what that has written behind it. Whatever
  /// fails here is repaired before the next change.
  func cutBack(to accepted: UInt64, cipher: ContentsCipher) {
    backing.length = accepted
    do throws(Errno) {
      try backing.descriptor.truncate(to: DataUnits.backingLength(for: accepted))
    } catch {
      backing.needsLengthRepair.store(true, ordering: .releasing)
    }
    do throws(Errno) {
      try clearLastBlock(cipher: cipher)
    } catch {
      backing.needsClearing.store(true, ordering: .releasing)
    }
  }

  /// Replaces what the last block contains past the length, and the bytes behind the block, by zeros.
  ///
  /// They are never read, but a power cut may put a new length on disk without its data, or undo only the length; then
  /// they would become data.
  func clearLastBlock(cipher: ContentsCipher) throws(Errno) {
    let length = length
    let end = DataUnits.blockEnd(of: length)
    guard length != end else { return }
    let start = DataUnits.start(of: length)
    try unsafe withScratch { (scratch) throws(Errno) in
      let isHole = try unsafe fill(scratch, withUnitAt: start, oldEnd: length, cipher: cipher)
      if !isHole {
        let isInUnit = !DataUnits.isAligned(end)
        try unsafe writeUnit(scratch, at: start, end: isInUnit ? length : end, cipher: cipher)
        if isInUnit { return }
      }
      // A hole stays one. Bytes in the next unit are written only if they are not zeros, so that a hole there stays
      // too.
      let rest = unsafe UnsafeMutableRawBufferPointer(
        rebasing: scratch[..<Int(DataUnits.backingLength(for: length) - end)])
      guard try unsafe backing.descriptor.read(into: rest, at: end) > 0, unsafe rest.contains(where: { $0 != 0 }) else {
        return
      }
      unsafe rest.initializeMemory(as: UInt8.self, repeating: 0)
      try unsafe backing.descriptor.write(UnsafeRawBufferPointer(rest), at: end)
    }
  }

  func repair(_ cipher: ContentsCipher?) throws(Errno) {
    if backing.needsLengthRepair.load(ordering: .acquiring) {
      try backing.descriptor.truncate(to: DataUnits.backingLength(for: length))
      backing.needsLengthRepair.store(false, ordering: .releasing)
    }
    guard backing.needsClearing.load(ordering: .acquiring), let cipher else { return }
    do throws(Errno) {
      try clearLastBlock(cipher: cipher)
      // A growth that follows must not reach the disk first.
      try backing.synchronize(dataOnly: true)
      backing.needsClearing.store(false, ordering: .releasing)
    } catch {
      return
    }
  }
}
