import ProtectfsIO
import StoreFormat
import SystemPackage

/// The contents of an open file as its backing file has them, encrypted in units of 4096 bytes: ``UnitContents`` or
/// ``PageContents``, by the ``ContentsLayout`` of the store.
///
/// The caller decides what the class of the file permits, passes the cipher, keeps the times, and holds the contents
/// lock: shared for reads and seeks, exclusively for changes and from the preparation of a step of a rekey to its end.
package protocol FileContents: AnyObject, Sendable {
  var backing: BackingFile { get }
  /// Where the ciphertext ends in the backing file, in bytes.
  var ciphertextEnd: UInt64 { get }

  /// Reads up to `count` bytes of plaintext at `offset` into `buffer`, which needs room for two more units and
  /// a block, of a file that has `length` bytes. The chunks that `overlay` returns count as written.
  ///
  /// - Returns: the bytes, which are in `buffer` but not at its start. There are none at or past the end of the file.
  /// - Throws: `EIO` for a length that no plaintext can have, or if the keys were wiped; ``Errno/notAuthentic``,
  ///   ``Errno/missingPage``, the error of pread(2), or that of `overlay`.
  func plaintext(
    at offset: UInt64, count: Int, of length: UInt64, into buffer: UnsafeMutableRawBufferPointer,
    cipher: ContentsCipher, _ overlay: Overlay?
  ) throws(Errno) -> UnsafeRawBufferPointer

  /// Writes plaintext at `offset`: `bytes`, which is not empty and ends at ``ContentsLayout/longest`` at most, is
  /// overwritten, and so may be the 32 bytes behind it, which must exist.
  ///
  /// The write is complete or, if the backing file system fails midway, the file keeps its length, and each of its
  /// bytes is old or new. With `keepingPart`, what was written before the failure does extend the file. This is for
  /// cached pages, to whose writers success was reported already.
  ///
  /// `whenFull` is asked when there is no space; it waits for what may free some, and returns whether to try again.
  ///
  /// - Throws: `EIO` if the keys were wiped, or the backing file is shorter than its length says;
  ///   ``Errno/notAuthentic`` and ``Errno/missingPage`` for what is there, as the other changes; the error of pread(2)
  ///   or pwrite(2).
  func write(
    _ bytes: UnsafeMutableRawBufferPointer, at offset: UInt64, cipher: ContentsCipher, keepingPart: Bool,
    whenFull: () -> Bool
  ) throws(Errno)

  /// Sets the length in bytes, ``ContentsLayout/longest`` at most. Added bytes read as zeros. `room` is allocated in
  /// the backing file before the file has its new length, and after the calls that may cut it off.
  ///
  /// - Throws: the error of the backing file system.
  func resize(to newLength: UInt64, cipher: ContentsCipher, taking room: Range<UInt64>?) throws(Errno)

  /// Allocates, punches or zeroes a range (fallocate(2)).
  ///
  /// - Throws: `EOPNOTSUPP` for modes that move data to other units (which would have to be encrypted again), or the
  ///   error of the backing file system.
  func allocate(_ mode: AllocationMode, _ range: Range<UInt64>, cipher: ContentsCipher) throws(Errno)

  /// Finds data or a hole at or after an offset (lseek(2)) in a file that has `length` bytes. Needs no key, since holes
  /// are visible in the backing file.
  ///
  /// - Throws: `ENXIO` past the end of the file or, for data, if none follows.
  func seek(to offset: UInt64, _ origin: SeekOrigin, of length: UInt64) throws(Errno) -> UInt64

  /// Takes over what is known of the contents of a closed file; `nil` if nothing.
  func expect(_ known: CleanContents?)

  /// Whether it is certain that no page is a hole.
  var isDense: Bool { get }

  /// Repairs what a failure has left. Without a cipher only the length is repaired.
  ///
  /// - Throws: the error of ftruncate(2). What cannot be cleared, for example on a full copy-on-write file system,
  ///   keeps nobody from changing the file; clearing is tried again.
  func repair(_ cipher: ContentsCipher?) throws(Errno)
}

extension FileContents {
  package func expect(_ known: CleanContents?) {}

  package var isDense: Bool { false }

  /// Returns the chunks that another mount is writing into the file. Called after the file was read.
  package typealias Overlay = ContentsLayout.Overlay

  /// The length of the plaintext in bytes.
  package var length: UInt64 { backing.length }

  /// Whether a failure has left something to repair.
  package var needsRepair: Bool { backing.needsRepair }

  /// ``seek(to:_:of:)`` in the file as it is now.
  package func seek(to offset: UInt64, _ origin: SeekOrigin) throws(Errno) -> UInt64 {
    try seek(to: offset, origin, of: backing.currentLength())
  }

  /// ``plaintext(at:count:of:into:cipher:_:)`` of the file as it is now. With `movesAccessTime` the access time moves,
  /// according to the mount options of the backing file system. Otherwise it does not, because the descriptor has
  /// `O_NOATIME`.
  package func read(
    at offset: UInt64, count: Int, into buffer: UnsafeMutableRawBufferPointer, cipher: ContentsCipher,
    movesAccessTime: Bool, overlay: Overlay?
  ) throws(Errno) -> UnsafeRawBufferPointer {
    backing.willRead(count)
    let length = try backing.currentLength()
    guard movesAccessTime else {
      return try unsafe plaintext(at: offset, count: count, of: length, into: buffer, cipher: cipher, overlay)
    }
    return try unsafe backing.descriptor.movingAccessTime { () throws(Errno) in
      try unsafe plaintext(at: offset, count: count, of: length, into: buffer, cipher: cipher, overlay)
    }
  }

  /// Replaces what was read by the ciphertext of chunks. Returns the cipher for the result.
  func overlay(
    _ chunks: [RekeyBatch.Chunk], on bytes: UnsafeMutableRawBufferPointer, from start: UInt64, _ cipher: ContentsCipher
  ) -> ContentsCipher {
    guard let last = chunks.last else { return cipher }
    let range = start..<start + UInt64(bytes.count)
    for chunk in chunks where chunk.range.overlaps(range) {
      let common = chunk.range.clamped(to: range)
      let source = Int(common.lowerBound - chunk.range.lowerBound)
      for index in 0..<common.count {
        unsafe bytes[Int(common.lowerBound - start) + index] = chunk.ciphertext[source + index]
      }
    }
    return cipher.moved(to: last.nextBoundary)
  }

  /// Divides a range that begins before the end into a part of a unit, whole units, and another part; the unit in which
  /// the contents end is whole if the range reaches the end.
  func forEachPart(
    of range: Range<UInt64>, whole: (Range<UInt64>) throws(Errno) -> Void,
    part: (Range<UInt64>) throws(Errno) -> Void
  ) throws(Errno) {
    let fileEnd = length
    let end = min(range.upperBound, fileEnd)
    let firstWhole = DataUnits.end(of: range.lowerBound)
    let lastWhole = end == fileEnd ? DataUnits.end(of: end) : DataUnits.start(of: end)
    if range.lowerBound < min(firstWhole, end) { try part(range.lowerBound..<min(firstWhole, end)) }
    if firstWhole < lastWhole { try whole(firstWhole..<lastWhole) }
    if lastWhole < end, lastWhole >= firstWhole { try part(lastWhole..<end) }
  }

  /// Calls `body` with room for one unit and the bytes behind it, and wipes it afterwards.
  func withScratch(_ body: (UnsafeMutableRawBufferPointer) throws(Errno) -> Void) throws(Errno) {
    var failure: Errno?
    unsafe withUnsafeTemporaryAllocation(byteCount: Int(DataUnits.size) + 32, alignment: 16) { scratch in
      do throws(Errno) {
        try unsafe body(scratch)
      } catch {
        failure = error
      }
      unsafe Memory.wipe(scratch)
    }
    if let failure { throw failure }
  }
}
