import Cryptography
import ProtectfsIO
import StoreFormat
import Synchronization
import SystemPackage

extension ProtectedFile {
  /// Reads up to `count` bytes of plaintext at `offset` into `buffer`, which needs room for two more units.
  ///
  /// An *access* moves the access time, according to the mount options of the backing file system, if it is the first
  /// since the file was opened or changed. That is enough for `relatime`. Other reads do not move it, because the
  /// descriptor has `O_NOATIME`.
  ///
  /// - Returns: the bytes, which are in `buffer` but not at its start. There are none at or past the end of the file.
  /// - Throws: `EACCES` if the class does not allow it, `EIO` for a length that no plaintext can have, or the error of
  ///   pread(2).
  package func read(
    at offset: UInt64, count: Int, into buffer: UnsafeMutableRawBufferPointer, isAccess: Bool = false,
    overlay: Overlay? = nil
  ) throws(Errno) -> UnsafeRawBufferPointer {
    try requireNotDenied(.read)
    return try unsafe contents.read { () throws(Errno) in
      let cipher = try cipher(for: .read)
      if count > Self.longRead { readsOn() }
      guard isAccess, isAccessDue.exchange(false, ordering: .relaxed) else {
        return try unsafe plaintext(at: offset, count: count, into: buffer, cipher: cipher, overlay)
      }
      return try unsafe descriptor.movingAccessTime { () throws(Errno) in
        try unsafe plaintext(at: offset, count: count, into: buffer, cipher: cipher, overlay)
      }
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

  /// Returns the chunks that another mount is writing into the file. They count as written.
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

  /// Reads and decrypts whole units. The caller holds the contents lock.
  ///
  /// Where the file may end, one block more than requested is read. A backing file may end with up to 15 bytes that
  /// contain no data, so only a whole block past a unit proves that the unit is full.
  func plaintext(
    at offset: UInt64, count: Int, into buffer: UnsafeMutableRawBufferPointer, cipher: ContentsCipher,
    _ overlay: Overlay? = nil
  ) throws(Errno) -> UnsafeRawBufferPointer {
    var cipher = cipher
    let start = DataUnits.start(of: offset)
    let wanted = Int(DataUnits.end(of: offset + UInt64(count)) - start)
    let isInside = start + UInt64(wanted) <= length.load(ordering: .acquiring)
    let probe = isInside ? wanted : wanted + Int(DataUnits.blockSize)
    let received = try unsafe descriptor.read(into: .init(rebasing: buffer[..<probe]), at: start)
    if let overlay {
      cipher = try unsafe self.overlay(overlay(), on: .init(rebasing: buffer[..<received]), from: start, cipher)
    }
    var available = wanted
    if received < probe {
      guard let length = ContentLength.plaintext(for: start + UInt64(received)) else { throw .ioError }
      available = length > start ? min(wanted, Int(length - start)) : 0
    }
    let first = Int(offset - start)
    let last = min(first + count, available)
    guard last > first else { return unsafe UnsafeRawBufferPointer(rebasing: buffer[..<0]) }
    let blocks = Int(DataUnits.blockEnd(of: UInt64(available)))
    try unsafe Self.decrypt(
      .init(rebasing: buffer[..<blocks]), firstUnit: DataUnits.unit(of: start), cipher: cipher)
    // Units are decrypted whole, so the bytes outside the requested range are wiped.
    unsafe Memory.wipe(.init(rebasing: buffer[..<first]))
    unsafe Memory.wipe(.init(rebasing: buffer[last..<blocks]))
    return unsafe UnsafeRawBufferPointer(rebasing: buffer[first..<last])
  }

  /// Decrypts units in place, and leaves parts that were never written as zeros. Runs of whole units are decrypted in
  /// one call.
  static func decrypt(
    _ bytes: UnsafeMutableRawBufferPointer, firstUnit: UInt64, cipher: ContentsCipher
  ) throws(Errno) {
    let size = Int(DataUnits.size)
    var runStart = 0
    var position = 0
    while position < bytes.count {
      let end = min(position + size, bytes.count)
      let written = unsafe DataUnits.writtenCount(UnsafeRawBufferPointer(rebasing: bytes[position..<end]))
      if written < end - position {
        try unsafe decryptRun(bytes, runStart..<position + written, firstUnit: firstUnit, cipher: cipher)
        runStart = end
      }
      position = end
    }
    try unsafe decryptRun(bytes, runStart..<bytes.count, firstUnit: firstUnit, cipher: cipher)
  }

  private static func decryptRun(
    _ bytes: UnsafeMutableRawBufferPointer, _ run: Range<Int>, firstUnit: UInt64, cipher: ContentsCipher
  ) throws(Errno) {
    guard !run.isEmpty else { return }
    let unit = firstUnit + UInt64(run.lowerBound) / DataUnits.size
    do {
      try unsafe cipher.decrypt(.init(rebasing: bytes[run]), firstUnit: unit)
    } catch {
      throw .ioError
    }
  }

  /// Encrypts units in place.
  static func encrypt(
    _ bytes: UnsafeMutableRawBufferPointer, firstUnit: UInt64, cipher: ContentsCipher
  ) throws(Errno) {
    guard bytes.count > 0 else { return }
    do {
      try unsafe cipher.encrypt(bytes, firstUnit: firstUnit)
    } catch {
      throw .ioError
    }
  }
}
