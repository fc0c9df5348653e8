import CFUSE
import Glibc
import LinuxIO

/// One thread that serves requests, and the two buffers that are its own: requests come in one, data goes out of the
/// other. Neither is ever allocated again, and both are kept out of core dumps.
@safe final class Worker {
  /// Room behind the data of a read or write, for the block that its last bytes are padded to.
  static let slack = 4096

  /// The largest request: a header of a page and the data of a write.
  static let requestSize = Session.maximumTransfer + 4096

  let request: UnsafeMutableRawBufferPointer
  let data: UnsafeMutableRawBufferPointer

  init() {
    unsafe request = Self.buffer(of: Self.requestSize + Self.slack)
    unsafe data = Self.buffer(of: Session.maximumTransfer + 2 * Self.slack)
  }

  deinit {
    unsafe request.deallocate()
    unsafe data.deallocate()
  }

  private static func buffer(of size: Int) -> UnsafeMutableRawBufferPointer {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 4096)
    unsafe Memory.keepOutOfCoreDumps(buffer)
    return unsafe buffer
  }

  /// Serves requests until the file system is unmounted.
  func run(_ session: OpaquePointer) {
    Memory.giveThreadItsOwnUmask()
    unsafe pthread_setspecific(Self.key, Unmanaged.passUnretained(self).toOpaque())
    while unsafe fuse_session_exited(session) == 0 {
      var buffer = unsafe fuse_buf()
      unsafe buffer.mem = request.baseAddress
      let count = unsafe fuse_session_receive_buf(session, &buffer)
      if count == -EINTR { continue }
      if count <= 0 { break }
      unsafe fuse_session_process_buf(session, &buffer)
    }
  }

  /// The worker of the calling thread, which must be one.
  static var current: Worker {
    unsafe Unmanaged<Worker>.fromOpaque(pthread_getspecific(key)!).takeUnretainedValue()
  }

  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    let result = unsafe pthread_key_create(&key, nil)
    precondition(result == 0, "no thread-specific data key left")
    return key
  }()

  /// A 32-bit word of the raw request being served, `offset` bytes behind its header: libfuse leaves some flags out.
  static func rawWord(at offset: Int) -> UInt32 {
    unsafe current.request.loadUnaligned(fromByteOffset: MemoryLayout<UInt64>.size * 5 + offset, as: UInt32.self)
  }
}
