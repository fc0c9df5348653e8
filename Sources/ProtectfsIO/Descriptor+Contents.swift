import CProtectfsIO
import Glibc
import Synchronization
import SystemPackage

// Calls on the contents of an open file. Each is the system call that its comment names; partial transfers are
// continued.
extension Descriptor {
  /// Reads until the buffer is full or the file ends. Returns the number of bytes read (pread(2)).
  package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(Errno) -> Int {
    var done = 0
    while done < buffer.count {
      let count = unsafe linux_pread(
        rawValue, buffer.baseAddress! + done, buffer.count - done, off_t(truncatingIfNeeded: offset) + off_t(done))
      if count == -Int(EINTR) { continue }
      if try check(count) == 0 { break }
      done += count
    }
    return done
  }

  /// Makes everything durable that was written to this file system (syncfs(2)).
  package func synchronizeFileSystem() throws(Errno) {
    _ = try check(linux_syncfs(rawValue))
  }

  /// Writes the whole buffer. On an error, `written` is the number of bytes that reached the file (pwrite(2)).
  package func write(
    _ buffer: UnsafeRawBufferPointer, at offset: UInt64, written: inout Int
  ) throws(Errno) {
    written = 0
    while written < buffer.count {
      let rest = unsafe UnsafeRawBufferPointer(rebasing: buffer[written...])
      let count = unsafe write(some: rest, at: off_t(truncatingIfNeeded: offset) + off_t(written))
      if count == -Int(EINTR) { continue }
      written += try check(count)
    }
  }

  /// Writes long runs to disk at once, and does not keep them in the page cache, if the kernel supports that: the page
  /// cache has the plaintext already, and the disk is busy while the next run is encrypted.
  private func write(some buffer: UnsafeRawBufferPointer, at offset: off_t) -> Int {
    if buffer.count >= Self.longRun, Self.canWriteUncached.load(ordering: .relaxed) {
      let count = unsafe linux_pwrite_uncached(rawValue, buffer.baseAddress, buffer.count, offset)
      if count != -Int(EOPNOTSUPP) { return count }
      Self.canWriteUncached.store(false, ordering: .relaxed)
    }
    return unsafe linux_pwrite(rawValue, buffer.baseAddress, buffer.count, offset)
  }

  private static let longRun = 1 << 19
  private static let canWriteUncached = Atomic(true)

  /// Writes the whole buffer (pwrite(2)).
  package func write(_ buffer: UnsafeRawBufferPointer, at offset: UInt64) throws(Errno) {
    var written = 0
    try unsafe write(buffer, at: offset, written: &written)
  }

  /// Writes all bytes at the start of the file.
  package func write(_ bytes: [UInt8]) throws(Errno) {
    try unsafe bytes.withBytes { (buffer) throws(Errno) in try unsafe write(buffer, at: 0) }
  }

  /// Reads the file from its start, up to `limit` bytes.
  package func readAll(limit: Int) throws(Errno) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: limit)
    let count = try unsafe bytes.withMutableBytes { (buffer) throws(Errno) in
      try unsafe read(into: buffer, at: 0)
    }
    bytes.removeSubrange(count...)
    return bytes
  }

  /// Reads the next bytes of a pipe, terminal or file, up to the buffer's size. Returns 0 at its end (read(2)).
  package func readNext(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
    while true {
      let count = unsafe Glibc.read(rawValue, buffer.baseAddress, buffer.count)
      if count >= 0 { return count }
      if errno != EINTR { throw Errno(rawValue: errno) }
    }
  }

  /// Reads a pipe, terminal or file until its end or until the buffer is full. Returns the number of bytes.
  package func readToEnd(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
    var count = 0
    while count < buffer.count {
      let next = try unsafe readNext(into: UnsafeMutableRawBufferPointer(rebasing: buffer[count...]))
      if next == 0 { break }
      count += next
    }
    return count
  }

  /// Sets the length (ftruncate(2)).
  package func truncate(to length: UInt64) throws(Errno) {
    _ = try check(linux_ftruncate(rawValue, off_t(truncatingIfNeeded: length)))
  }

  /// Allocates or frees space (fallocate(2)).
  package func allocate(_ mode: AllocationMode, offset: UInt64, length: UInt64) throws(Errno) {
    while true {
      let result = linux_fallocate(
        rawValue, mode.rawValue, off_t(truncatingIfNeeded: offset), off_t(truncatingIfNeeded: length))
      if result == -EINTR { continue }
      _ = try check(result)
      return
    }
  }

  /// Sets the position, or finds data and holes (lseek(2)).
  package func seek(to offset: UInt64, _ origin: SeekOrigin) throws(Errno) -> UInt64 {
    UInt64(try check(linux_lseek(rawValue, off_t(truncatingIfNeeded: offset), origin.rawValue)))
  }

  /// Runs `body`, whose reads move the access time: `O_NOATIME` is off meanwhile. If it cannot be turned off, it was
  /// never on.
  package func movingAccessTime<Result: ~Copyable>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
    _ = linux_keep_access_time(rawValue, 0)
    defer { _ = linux_keep_access_time(rawValue, 1) }
    return try body()
  }

  /// Writes data and metadata to the device (fsync(2)).
  package func synchronize() throws(Errno) {
    _ = try check(linux_fsync(rawValue))
  }

  /// Writes data, and the metadata needed to read it, to the device (fdatasync(2)).
  package func synchronizeData() throws(Errno) {
    _ = try check(linux_fdatasync(rawValue))
  }
}

/// The mode of fallocate(2).
package struct AllocationMode: OptionSet, Sendable {
  package let rawValue: CInt

  package init(rawValue: CInt) {
    self.rawValue = rawValue
  }

  package static let keepSize = AllocationMode(rawValue: 1)
  package static let punchHole = AllocationMode(rawValue: 2)
  package static let collapseRange = AllocationMode(rawValue: 8)
  package static let zeroRange = AllocationMode(rawValue: 16)
  package static let insertRange = AllocationMode(rawValue: 32)
}

/// The origin of lseek(2), or what it looks for.
package enum SeekOrigin: CInt, Sendable {
  case start = 0
  case current = 1
  case data = 3
  case hole = 4
}
