import CFUSE
import Glibc
import ProtectfsIO
import Synchronization

/// A request that came through a ring, and the answer to it, in one buffer.
///
/// The header page begins with what the kernel writes for a request and reads for an answer (`struct
/// fuse_uring_req_header` in linux/fuse.h). At its end, in front of the data, the request is put together in the form
/// in which `/dev/fuse` delivers it.
@safe final class RingAnswer: @unchecked Sendable {
  /// `struct fuse_uring_req_header`: the two headers have 128 bytes each.
  private enum Offset {
    static let arguments = 128
    static let commitID = 264
    static let dataSize = 272
  }
  private static let mostArguments = 128

  /// The buffer of the current request. Another thread may use it once it has claimed the request.
  var buffer: RequestBuffer?
  private let unique = Atomic<UInt64>(0)
  private let count = Atomic<UInt64>(0)
  private let longCount = Atomic<UInt64>(0)
  /// How many bytes of data came with the request.
  private var received = 0
  /// What was sent must be wiped when the kernel has it.
  var holdsSecrets = false
  /// How many bytes of data the answer has used.
  private(set) var extent = 0
  /// The worker's own thread has answered.
  private(set) var isComplete = false
  /// Posted by another thread that has answered, or has taken the buffer over.
  let byOther = Semaphore()
  /// Set before the post: the buffer is another worker's.
  var isTakenOver = false

  /// Puts the request in the buffer together, and returns it with its length and the place of its data; `nil` if it
  /// makes no sense.
  func begin() -> (request: UnsafeMutableRawBufferPointer, count: Int, data: UnsafeMutableRawBufferPointer)? {
    holdsSecrets = false
    isComplete = false
    isTakenOver = false
    extent = 0
    guard let buffer else { return nil }
    let bytes = unsafe buffer.bytes
    // Later, the length is that of the answer.
    received = receivedCount
    buffer.noteUse(received)
    let header = unsafe bytes.load(as: fuse_in_header.self)
    unique.store(header.unique, ordering: .releasing)
    let headerSize = MemoryLayout<fuse_in_header>.size
    let count = Int(header.len)
    let arguments = count - headerSize - receivedCount
    guard (0...Self.mostArguments).contains(arguments), receivedCount <= Session.maximumTransfer else { return nil }
    let start = RequestBuffer.headerSize - headerSize - arguments
    let request = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[start...])
    unsafe request.storeBytes(of: header, as: fuse_in_header.self)
    unsafe (request.baseAddress! + headerSize).copyMemory(
      from: bytes.baseAddress! + Offset.arguments, byteCount: arguments)
    let data = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[RequestBuffer.headerSize...])
    return unsafe (request, count, data)
  }

  /// The number of bytes of data that came with the request.
  var receivedCount: Int { buffer.map { Self.receivedCount(in: $0) } ?? 0 }

  private static func receivedCount(in buffer: RequestBuffer) -> Int {
    Int(unsafe buffer.bytes.load(fromByteOffset: Offset.dataSize, as: UInt32.self))
  }

  /// The number by which the kernel knows what is to be committed.
  var commitID: UInt64 { buffer.map { Self.commitID(in: $0) } ?? 0 }

  static func commitID(in buffer: RequestBuffer) -> UInt64 {
    unsafe buffer.bytes.load(fromByteOffset: Offset.commitID, as: UInt64.self)
  }

  /// The number of the request that is being served; 0 between two.
  var currentUnique: UInt64 { unique.load(ordering: .acquiring) }

  /// Takes an answer from libfuse, if it is the one to this request. Returns its length.
  func take(_ parts: UnsafePointer<iovec>, count: Int) -> Int? {
    let size = unsafe store(parts, count: count)
    if size != nil { isComplete = true }
    return size
  }

  private func store(_ parts: UnsafePointer<iovec>, count: Int) -> Int? {
    guard count > 0, let first = unsafe parts[0].iov_base else { return nil }
    let header = unsafe first.load(as: fuse_out_header.self)
    guard header.unique != 0, header.unique == unique.load(ordering: .acquiring), let buffer else { return nil }
    let data = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer.bytes[RequestBuffer.headerSize...])
    var size = 0
    for index in 1..<max(count, 1) {
      let part = unsafe UnsafeRawBufferPointer(start: parts[index].iov_base, count: parts[index].iov_len)
      guard part.count <= data.count - size else { return nil }
      guard let source = part.baseAddress, let place = data.baseAddress else { continue }
      if unsafe source != UnsafeRawPointer(place + size) {
        unsafe memmove(place + size, source, part.count)
        // A part of the buffer that has the answer at another place.
        let offset = unsafe source - UnsafeRawPointer(place)
        if (0..<data.count).contains(offset) { extent = max(extent, offset + part.count) }
      }
      size += part.count
    }
    extent = max(extent, size)
    Self.store(header, dataSize: size, in: buffer)
    return MemoryLayout<fuse_out_header>.size + size
  }

  /// The same by a thread that is no worker, while the worker waits for it.
  func takeFromOther(_ parts: UnsafePointer<iovec>, count: Int) -> Int? {
    guard let size = unsafe store(parts, count: count) else { return nil }
    byOther.post()
    return size
  }

  /// Puts an error into a buffer, as the answer.
  static func refuse(_ error: CInt, to unique: UInt64, in buffer: RequestBuffer) {
    store(fuse_out_header(len: 16, error: -error, unique: unique), dataSize: 0, in: buffer)
    unsafe buffer.bytes.storeBytes(of: unique, toByteOffset: Offset.commitID, as: UInt64.self)
  }

  /// Makes an error the answer to the current request.
  func refuse(_ error: CInt) {
    if let buffer { Self.refuse(error, to: commitID, in: buffer) }
  }

  /// The header of the request.
  var header: fuse_in_header? { buffer.map { Self.header(in: $0) } }

  /// The arguments of the request.
  func arguments<Arguments: BitwiseCopyable>(as type: Arguments.Type) -> Arguments? {
    buffer.map { unsafe $0.bytes.load(fromByteOffset: Offset.arguments, as: type) }
  }

  static func header(in buffer: RequestBuffer) -> fuse_in_header {
    unsafe buffer.bytes.load(as: fuse_in_header.self)
  }

  /// The request is over, for threads that look for it.
  func end() { unique.store(0, ordering: .releasing) }

  /// The number of requests that the worker's own thread has served.
  var servedCount: UInt64 { count.load(ordering: .relaxed) }

  /// The number of those with so much data that its memory is given back later.
  var servedLongCount: UInt64 { longCount.load(ordering: .relaxed) }

  /// The worker's own thread has served a request.
  func countServed() {
    count.store(count.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    buffer?.noteUse(extent)
    guard max(received, extent) > RequestBuffer.mostKept else { return }
    longCount.store(longCount.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
  }

  /// Wipes what came with the request, which is not served.
  func wipeReceived() {
    if let buffer { Self.wipeData(of: buffer, from: 0, to: receivedCount) }
  }

  /// What the answer has left in the buffer that must be wiped when the kernel has it: the number of bytes of data.
  var secrets: Int { holdsSecrets ? extent : 0 }

  /// Wipes `extent` bytes of data, now that the kernel has them. `isForNext`: another request has come into the buffer,
  /// whose data stays.
  static func wipe(_ buffer: RequestBuffer, extent: Int, isForNext: Bool) {
    wipeData(of: buffer, from: isForNext ? receivedCount(in: buffer) : 0, to: extent)
  }

  static func wipeData(of buffer: RequestBuffer, from first: Int, to end: Int) {
    guard first < end else { return }
    buffer.noteUse(end)
    let start = RequestBuffer.headerSize
    unsafe Memory.wipe(UnsafeMutableRawBufferPointer(rebasing: buffer.bytes[(start + first)..<(start + end)]))
  }

  private static func store(_ header: fuse_out_header, dataSize: Int, in buffer: RequestBuffer) {
    unsafe buffer.bytes.storeBytes(of: header, as: fuse_out_header.self)
    unsafe buffer.bytes.storeBytes(of: UInt32(dataSize), toByteOffset: Offset.dataSize, as: UInt32.self)
  }
}
