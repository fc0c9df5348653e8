import ProtectfsIO
import Synchronization
import SystemPackage

// What a failed change leaves behind the end of a file.
extension FileContents {
  /// Gives the file its accepted length after a failed change, and takes away what that has written behind it. Whatever
  /// fails here is repaired before the next change.
  func cutBack(to accepted: UInt64, cipher: ContentsCipher) {
    length = accepted
    do throws(Errno) {
      try descriptor.truncate(to: Self.backingLength(for: accepted))
    } catch {
      needsLengthRepair.store(true, ordering: .releasing)
    }
    do throws(Errno) {
      try clearLastBlock(cipher: cipher)
    } catch {
      needsClearing.store(true, ordering: .releasing)
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
      // A hole stays one. Where the bytes behind the block are in the next unit, they take no room unless they must.
      let rest = unsafe UnsafeMutableRawBufferPointer(
        rebasing: scratch[..<Int(Self.backingLength(for: length) - end)])
      guard try unsafe descriptor.read(into: rest, at: end) > 0, unsafe rest.contains(where: { $0 != 0 }) else {
        return
      }
      unsafe rest.initializeMemory(as: UInt8.self, repeating: 0)
      try unsafe descriptor.write(UnsafeRawBufferPointer(rest), at: end)
    }
  }

  /// Whether a failure has left something to repair.
  package var needsRepair: Bool {
    needsLengthRepair.load(ordering: .acquiring) || needsClearing.load(ordering: .acquiring)
  }

  /// Repairs what a failure has left. Without a cipher only the length is repaired.
  ///
  /// - Throws: the error of ftruncate(2). What cannot be cleared, for example on a full copy-on-write file system,
  ///   keeps nobody from changing the file; clearing is tried again.
  package func repair(_ cipher: ContentsCipher?) throws(Errno) {
    if needsLengthRepair.load(ordering: .acquiring) {
      try descriptor.truncate(to: Self.backingLength(for: length))
      needsLengthRepair.store(false, ordering: .releasing)
    }
    guard needsClearing.load(ordering: .acquiring), let cipher else { return }
    do throws(Errno) {
      try clearLastBlock(cipher: cipher)
      // A growth that follows must not reach the disk first.
      try synchronize(dataOnly: true)
      needsClearing.store(false, ordering: .releasing)
    } catch {
      return
    }
  }
}
