import CProtectfsIO
import ProtectfsLibc
import Synchronization
import SystemPackage

// Calls on the contents of an open file. Each is the system call that its comment names; partial transfers are
// continued.
extension Descriptor {
  /// Reads until the buffer is full or the file ends. Returns the number of bytes read (pread(2)).
  package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(Errno) -> Int {
    var done = 0
    while done < buffer.count {
      let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
      let count = try unsafe readOnce(into: rest, at: offset + UInt64(done))
      if count == 0 { break }
      done += count
    }
    return done
  }

  /// The same by one call, which may read less.
  package func readOnce(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(Errno) -> Int {
    try call(
      "pread", unsafe store_pread(rawValue, buffer.baseAddress, buffer.count, off_t(truncatingIfNeeded: offset)))
  }

  /// Has the kernel read twice as far ahead of reads that follow each other (posix_fadvise(2)). Where it does not, only
  /// time is lost.
  package func expectSequentialReads() { _ = posix_fadvise(rawValue, 0, 0, POSIX_FADV_SEQUENTIAL) }

  /// Has the kernel forget its pages of the file where the file system may serve several hosts (posix_fadvise(2)):
  /// another one may have overwritten it, of which some kernels are not told (GlusterFS).
  package consuming func asOnServer() -> Descriptor {
    if mayServeSeveralHosts { _ = posix_fadvise(rawValue, 0, 0, POSIX_FADV_DONTNEED) }
    return self
  }

  /// Has the kernel begin to read the start of the file into its page cache (posix_fadvise(2)). Where it does not, only
  /// time is lost.
  package func readAhead(_ length: UInt64) {
    _ = posix_fadvise(rawValue, 0, off_t(truncatingIfNeeded: length), POSIX_FADV_WILLNEED)
  }

  /// Has everything written back that programs have written to this file system (syncfs(2)).
  package func writeFileSystemBack() throws(Errno) {
    try call("syncfs", store_syncfs(rawValue))
  }

  /// Makes everything durable that was written to this file system.
  ///
  /// Some pass on what is written, but not syncfs(2): FUSE (`fuse_sync_fs()` in fs/fuse/inode.c) and eCryptfs. There
  /// all file systems follow (sync(2)), among them the one that it was passed on to.
  package func synchronizeFileSystem() throws(Errno) {
    try writeFileSystemBack()
    if !isSynchronizedWhole { sync() }
  }

  /// Whether syncfs(2) alone makes everything durable that was written to this file system.
  package var isSynchronizedWhole: Bool {
    guard let kind = try? fileSystemKind() else { return true }
    return ![.fuse, .ecryptfs].contains(kind)
  }

  /// Writes the whole buffer. On an error, `written` is the number of bytes that reached the file (pwrite(2)).
  package func write(
    _ buffer: UnsafeRawBufferPointer, at offset: UInt64, written: inout Int
  ) throws(Errno) {
    written = 0
    while written < buffer.count {
      let rest = unsafe UnsafeRawBufferPointer(rebasing: buffer[written...])
      written += try unsafe write(some: rest, at: off_t(truncatingIfNeeded: offset) + off_t(written))
    }
  }

  /// Writes long runs to disk at once, and does not keep them in the page cache, if the kernel supports that: the page
  /// cache has the plaintext already, and the disk is busy while the next run is encrypted.
  private func write(some buffer: UnsafeRawBufferPointer, at offset: off_t) throws(Errno) -> Int {
    if buffer.count >= Self.longRun, Self.canWriteUncached.load(ordering: .relaxed) {
      var part = unsafe iovec(iov_base: UnsafeMutableRawPointer(mutating: buffer.baseAddress), iov_len: buffer.count)
      do throws(Errno) {
        // `RWF_DONTCACHE` (linux/fs.h, since 6.14)
        return try call("pwritev2", unsafe store_pwritev2(rawValue, &part, 1, offset, 0x80))
      } catch {
        if error != .notSupportedOnSocket { throw error }
        Self.canWriteUncached.store(false, ordering: .relaxed)
      }
    }
    return try call("pwrite", unsafe store_pwrite(rawValue, buffer.baseAddress, buffer.count, offset))
  }

  private static let longRun = 1 << 19
  private static let canWriteUncached = Atomic(true)

  /// Writes the whole buffer (pwrite(2)).
  package func write(_ buffer: UnsafeRawBufferPointer, at offset: UInt64) throws(Errno) {
    var written = 0
    try unsafe write(buffer, at: offset, written: &written)
  }

  /// Writes all bytes, at the start of the file unless `offset` says otherwise.
  package func write(_ bytes: [UInt8], at offset: UInt64 = 0) throws(Errno) {
    try unsafe bytes.withBytes { (buffer) throws(Errno) in try unsafe write(buffer, at: offset) }
  }

  /// Reads the file from its start, or from an offset, up to `limit` bytes.
  package func readAll(from offset: UInt64 = 0, limit: Int) throws(Errno) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: limit)
    let count = try unsafe bytes.withMutableBytes { (buffer) throws(Errno) in
      try unsafe read(into: buffer, at: offset)
    }
    bytes.removeSubrange(count...)
    return bytes
  }

  /// Reads the next bytes of a pipe, terminal or file, up to the buffer's size. Returns 0 at its end (read(2)).
  package func readNext(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
    try call("read", unsafe ProtectfsLibc.read(rawValue, buffer.baseAddress, buffer.count))
  }

  /// The bytes that are left of a pipe, socket or file of any length.
  package func readToEnd() throws(Errno) -> [UInt8] {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 16_384)
    while true {
      let count = try unsafe chunk.withMutableBytes { (chunk) throws(Errno) in try unsafe readNext(into: chunk) }
      if count == 0 { return bytes }
      bytes += chunk[..<count]
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
    try call("ftruncate", store_ftruncate(rawValue, off_t(truncatingIfNeeded: length)))
  }

  /// Allocates or frees space (fallocate(2)).
  package func allocate(_ mode: AllocationMode, offset: UInt64, length: UInt64) throws(Errno) {
    let (offset, length) = (off_t(truncatingIfNeeded: offset), off_t(truncatingIfNeeded: length))
    try call("fallocate", store_fallocate(rawValue, mode.rawValue, offset, length))
  }

  /// Sets the position, or finds data and holes (lseek(2)).
  package func seek(to offset: UInt64, _ origin: SeekOrigin) throws(Errno) -> UInt64 {
    UInt64(try call("lseek", store_lseek(rawValue, off_t(truncatingIfNeeded: offset), origin.rawValue)))
  }

  /// Runs `body`, whose reads move the access time: `O_NOATIME` is off meanwhile. If it cannot be turned off, it was
  /// never on.
  package func movingAccessTime<Result: ~Copyable>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
    LockOrder.requireCallsAllowed("fcntl")
    _ = fcntl(rawValue, F_SETFL, 0)
    defer { _ = fcntl(rawValue, F_SETFL, OpenFlags.keepAccessTime.rawValue) }
    return try body()
  }

  /// Writes data and metadata to the device (fsync(2)).
  package func synchronize() throws(Errno) {
    try call("fsync", store_fsync(rawValue))
  }

  /// Writes data, and the metadata needed to read it, to the device (fdatasync(2)).
  package func synchronizeData() throws(Errno) {
    try call("fdatasync", store_fdatasync(rawValue))
  }

  /// Has the kernel write what it has of a range, and waits until none of it is being written (sync_file_range(2)).
  /// Afterwards it may be lost in a power cut all the same.
  package func finishWriteBack(of range: Range<UInt64>) throws(Errno) {
    let (offset, length) = (off_t(truncatingIfNeeded: range.lowerBound), off_t(range.count))
    // SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER.
    try call("sync_file_range", store_sync_file_range(rawValue, offset, length, 1 | 2 | 4))
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
