import ProtectfsIO
import StoreFormat
import Synchronization
import SystemPackage

extension FileContents {
  /// Reads up to `count` bytes of plaintext at `offset` into `buffer`, which needs room for two more units and
  /// a block.
  ///
  /// With `movesAccessTime` the access time moves, according to the mount options of the backing file system. Otherwise
  /// it does not, because the descriptor has `O_NOATIME`. The chunks that `overlay` returns count as written.
  ///
  /// - Returns: the bytes, which are in `buffer` but not at its start. There are none at or past the end of the file.
  /// - Throws: `EIO` for a length that no plaintext can have, or if the keys were wiped; the error of pread(2), or that
  ///   of `overlay`.
  package func read(
    at offset: UInt64, count: Int, into buffer: UnsafeMutableRawBufferPointer, cipher: ContentsCipher,
    movesAccessTime: Bool, overlay: Overlay?
  ) throws(Errno) -> UnsafeRawBufferPointer {
    if count > Self.longRead { readsOn() }
    guard movesAccessTime else {
      return try unsafe plaintext(at: offset, count: count, into: buffer, cipher: cipher, overlay)
    }
    return try unsafe descriptor.movingAccessTime { () throws(Errno) in
      try unsafe plaintext(at: offset, count: count, into: buffer, cipher: cipher, overlay)
    }
  }

  /// More than this the kernel reads at a time only ahead of a program that reads on and on.
  private static let longRead = 1 << 16

  /// Has the backing file system read on further ahead. With as much as one long read, which is what it reads by
  /// default, it would wait for the disk while that is decrypted.
  private func readsOn() {
    if isReadOn.load(ordering: .relaxed) { return }
    isReadOn.store(true, ordering: .relaxed)
    descriptor.expectSequentialReads()
  }

  /// Returns the chunks that another mount is writing into the file. Called after the file was read.
  package typealias Overlay = () throws(Errno) -> [RekeyBatch.Chunk]

  /// Replaces what was read by the ciphertext of chunks. Returns the cipher for the result.
  private func overlay(
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

  /// Reads and decrypts whole units.
  ///
  /// Where the file may end, one block more than requested is read. A backing file may end with up to 15 bytes that
  /// contain no data, so only a whole block past a unit proves that the unit is full.
  private func plaintext(
    at offset: UInt64, count: Int, into buffer: UnsafeMutableRawBufferPointer, cipher: ContentsCipher,
    _ overlay: Overlay?
  ) throws(Errno) -> UnsafeRawBufferPointer {
    var cipher = cipher
    let start = DataUnits.start(of: offset)
    let wanted = Int(DataUnits.end(of: offset + UInt64(count)) - start)
    let isInside = start + UInt64(wanted) <= length
    let probe = isInside ? wanted : wanted + Int(DataUnits.blockSize)
    let received = try unsafe descriptor.read(into: .init(rebasing: buffer[..<probe]), at: start)
    if let overlay {
      cipher = try unsafe self.overlay(overlay(), on: .init(rebasing: buffer[..<received]), from: start, cipher)
    }
    var available = wanted
    if received < probe {
      guard let length = Self.length(ofBacking: start + UInt64(received)) else { throw .ioError }
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
