import CProtectfsIO
import ProtectfsLibc
import SystemPackage

/// The memory through which requests of one of the kernel's queues and their answers pass: a page for headers, then
/// room for data. It is kept out of core dumps.
///
/// It is mapped twice. The kernel knows the first address for good. The thread that serves a request uses the second,
/// so that the first can get other memory while that thread hangs (``replaced()``).
@safe package final class RequestBuffer: @unchecked Sendable {
  /// The size of the page before the data.
  package static let headerSize = 4096

  /// The number of the queue, which is that of a processor.
  package let queue: Int
  /// The same memory as `bytes`, where the kernel uses it.
  let shared: UnsafeMutableRawBufferPointer
  /// The memory for the thread that serves.
  package let bytes: UnsafeMutableRawBufferPointer
  /// Whether the first address is another buffer's now.
  private var isReplaced = false
  /// The maximum number of bytes of data that were there since the memory was released.
  private var mostUsed = 0

  /// Throws `ENOMEM`. `dataSize` is in bytes, a multiple of the size of a page.
  package convenience init(queue: Int, dataSize: Int) throws(Errno) {
    let (shared, bytes) = try unsafe Self.map(Self.headerSize + dataSize)
    unsafe self.init(queue: queue, shared: shared, bytes: bytes)
  }

  private init(queue: Int, shared: UnsafeMutableRawBufferPointer, bytes: UnsafeMutableRawBufferPointer) {
    self.queue = queue
    unsafe self.shared = shared
    unsafe self.bytes = bytes
  }

  deinit {
    unsafe linux_unmap(bytes.baseAddress, bytes.count)
    if !isReplaced { unsafe linux_unmap(shared.baseAddress, shared.count) }
  }

  /// A buffer with other memory, zeros, at the address that the kernel knows. The memory of this one is left to the
  /// thread that uses it.
  ///
  /// - Throws: `ENOMEM`; nothing has changed then.
  package func replaced() throws(Errno) -> RequestBuffer {
    let (start, again) = try unsafe Self.map(shared.count)
    do throws(Errno) {
      try check(unsafe linux_move_mapping(start.baseAddress, shared.baseAddress, shared.count))
    } catch {
      unsafe linux_unmap(start.baseAddress, start.count)
      unsafe linux_unmap(again.baseAddress, again.count)
      throw error
    }
    isReplaced = true
    return unsafe RequestBuffer(queue: queue, shared: shared, bytes: again)
  }

  /// Records that there were `count` bytes of data.
  package func noteUse(_ count: Int) { mostUsed = max(mostUsed, count) }

  /// The most data whose memory is kept while the buffer is not used.
  package static let mostKept = 1 << 16

  /// Gives the memory of the data back to the system if it is much. It is zeros when it is used next.
  package func releaseData() {
    if mostUsed > Self.mostKept {
      unsafe linux_free_shared(bytes.baseAddress! + Self.headerSize, bytes.count - Self.headerSize)
    }
    mostUsed = 0
  }

  /// What the kernel is told of the buffer when it is given to it (`FUSE_IO_URING_CMD_REGISTER`): the addresses of the
  /// headers and of the data. They lie in the first page, behind the headers (288 bytes), and in front of the request.
  func parts() -> UnsafeMutablePointer<iovec> {
    let parts = unsafe (bytes.baseAddress! + 512).bindMemory(to: iovec.self, capacity: 2)
    unsafe parts[0] = unsafe iovec(iov_base: shared.baseAddress, iov_len: Self.headerSize)
    unsafe parts[1] = unsafe iovec(
      iov_base: shared.baseAddress! + Self.headerSize, iov_len: shared.count - Self.headerSize)
    return unsafe parts
  }

  /// Memory at two addresses.
  private static func map(
    _ size: Int
  ) throws(Errno) -> (UnsafeMutableRawBufferPointer, UnsafeMutableRawBufferPointer) {
    guard let start = unsafe linux_map_shared(size) else { throw .noMemory }
    guard let again = unsafe linux_map_again(start, size) else {
      unsafe linux_unmap(start, size)
      throw .noMemory
    }
    return unsafe (
      UnsafeMutableRawBufferPointer(start: start, count: size), UnsafeMutableRawBufferPointer(start: again, count: size)
    )
  }
}
