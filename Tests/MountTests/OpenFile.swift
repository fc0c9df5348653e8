import CSystemCalls
import Glibc
import ProtectfsIO
import SystemPackage

/// An open file, closed with its last reference. Each transfer is one call, so that its result is visible.
final class OpenFile: Sendable {
  let descriptor: CInt

  /// O_DIRECT and O_SYNC, which Glibc's module leaves out or has as other types (asm-generic/fcntl.h).
  static let direct: CInt = 0o40000
  static let synchronous: CInt = 0o4010000

  init(_ path: PathName, _ flags: CInt, mode: UInt32 = 0o644) throws(Errno) {
    descriptor = try check(unsafe path.withCString { unsafe calls_open($0, flags, mode) })
  }

  deinit { calls_close(descriptor) }

  func read(at offset: Int, count: Int) throws(Errno) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    let got = try check(
      unsafe bytes.withUnsafeMutableBytes {
        unsafe calls_pread(descriptor, $0.baseAddress, $0.count, off_t(offset))
      })
    bytes.removeSubrange(got...)
    return bytes
  }

  func write(_ bytes: [UInt8], at offset: Int) throws(Errno) {
    let written = try check(
      unsafe bytes.withUnsafeBytes { unsafe calls_pwrite(descriptor, $0.baseAddress, $0.count, off_t(offset)) })
    guard written == bytes.count else { throw .partialWrite }
  }

  /// Writes at the current position, which is the end with O_APPEND.
  func append(_ bytes: [UInt8]) throws(Errno) {
    let written = try check(
      unsafe bytes.withUnsafeBytes { unsafe calls_write(descriptor, $0.baseAddress, $0.count) })
    guard written == bytes.count else { throw .partialWrite }
  }

  func truncate(to length: Int) throws(Errno) { try check(calls_ftruncate(descriptor, off_t(length))) }

  func allocate(_ mode: AllocationMode, at offset: Int, count: Int) throws(Errno) {
    try check(calls_fallocate(descriptor, mode.rawValue, off_t(offset), off_t(count)))
  }

  func synchronize() throws(Errno) { try check(calls_fsync(descriptor)) }

  /// Has the kernel begin to write dirty pages back, and does not wait for it (sync_file_range(2)).
  func beginWriteBack() throws(Errno) { try check(calls_begin_write_back(descriptor)) }

  func synchronizeData() throws(Errno) { try check(calls_fdatasync(descriptor)) }

  func seek(to offset: Int, _ origin: SeekOrigin) throws(Errno) -> Int {
    Int(try check(calls_lseek(descriptor, off_t(offset), origin.rawValue)))
  }

  func status() throws(Errno) -> FileStatus {
    var status = FileStatus()
    try check(unsafe calls_fstat(descriptor, &status))
    return status
  }

  func lock(_ operation: CInt) throws(Errno) { try check(calls_flock(descriptor, operation)) }

  @discardableResult
  func copyRange(from offset: Int, to target: OpenFile, at targetOffset: Int, count: Int) throws(Errno) -> Int {
    try check(
      calls_copy_file_range(descriptor, off_t(offset), target.descriptor, off_t(targetOffset), count))
  }
}

extension Errno {
  /// Thrown if a call transferred less than requested. No system call returns it.
  static let partialWrite = Errno(rawValue: 9999)
}

extension PathName {
  /// The contents of a file.
  func contents() throws(Errno) -> [UInt8] {
    let file = try OpenFile(self, O_RDONLY)
    let size = Int(try file.status().size)
    var bytes: [UInt8] = []
    while bytes.count < size {
      let part = try file.read(at: bytes.count, count: min(size - bytes.count, 1 << 20))
      if part.isEmpty { break }
      bytes += part
    }
    return bytes
  }

  /// Creates a file with these contents, or replaces its contents.
  func write(_ bytes: [UInt8], mode: UInt32 = 0o644) throws(Errno) {
    let file = try OpenFile(self, O_WRONLY | O_CREAT | O_TRUNC, mode: mode)
    var offset = 0
    while offset < bytes.count {
      let end = min(offset + 1 << 20, bytes.count)
      try file.write(Array(bytes[offset..<end]), at: offset)
      offset = end
    }
  }

  func write(_ text: String) throws(Errno) { try write(Array(text.utf8)) }
}

/// A shared mapping of a file, accessed through the kernel: where a program would get SIGBUS, it throws `EFAULT`.
@safe final class Mapping: @unchecked Sendable {
  private let address: UnsafeMutableRawPointer
  let count: Int

  init(_ file: OpenFile, count: Int, isWritable: Bool = true) throws(Errno) {
    var address: UnsafeMutableRawPointer?
    try check(unsafe calls_map(file.descriptor, count, isWritable ? 1 : 0, &address))
    unsafe self.address = address!
    self.count = count
  }

  deinit { unsafe calls_unmap(address, count) }

  func read(at offset: Int, count: Int) throws(Errno) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    try check(
      unsafe bytes.withUnsafeMutableBytes { unsafe calls_read_mapping(address + offset, $0.baseAddress, $0.count) })
    return bytes
  }

  func write(_ bytes: [UInt8], at offset: Int) throws(Errno) {
    try check(
      unsafe bytes.withUnsafeBytes { unsafe calls_write_mapping(address + offset, $0.baseAddress, $0.count) })
  }

  func synchronize() throws(Errno) { try check(unsafe calls_msync(address, count)) }

  /// How many of its pages are in the page cache.
  func residentPages() throws(Errno) -> Int { Int(try check(unsafe calls_resident_pages(address, count))) }
}
