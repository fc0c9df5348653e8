import CFUSE
import Glibc
import ProtectfsIO

/// The thread that answers requests while all workers are stuck in a store that does not respond.
///
/// It takes requests only if no worker has for long. For files that the kernel knows, it refuses what a lock refuses.
/// It defers the rest until a worker is free. It never uses the store, nor takes a lock that is held by a thread that
/// uses the store.
@safe final class Reserve {
  private let session: OpaquePointer
  private let target: DispatchTarget
  private let device: RequestDevice
  private let watch: DeviceWatch
  private let request: UnsafeMutableRawBufferPointer

  init(_ session: OpaquePointer, _ target: DispatchTarget, _ device: RequestDevice, _ watch: DeviceWatch) {
    unsafe self.session = session
    self.target = target
    self.device = device
    self.watch = watch
    unsafe request = .allocate(byteCount: Worker.requestSize, alignment: 4096)
    unsafe Memory.keepOutOfCoreDumps(request)
  }

  deinit {
    unsafe request.deallocate()
  }

  /// Serves until the connection has ended.
  func run() {
    while watch.waitUntilLeaderless() {
      while watch.isLeaderless, !watch.isOver {
        guard device.backlog.hasRoom else {
          Thread.sleep(microseconds: UInt32(watch.ticks.reserve))
          continue
        }
        guard device.hasNewRequest(milliseconds: CInt(watch.ticks.reserve / 1000)) else { continue }
        target.reserveRequest.willTake()
        let count = unsafe device.readNew(into: request)
        if count > 0 { take(count) }
        target.reserveRequest.end()
        guard count >= 0 else { return }
      }
    }
  }

  /// Answers the request in the buffer, or defers it.
  private func take(_ count: Int) {
    let bytes = unsafe UnsafeRawBufferPointer(rebasing: request[..<count])
    let header = unsafe RequestHeader(bytes)
    if target.marks.take(header, after: target.counts.total) { return }
    switch header.operation {
    // These concern only the daemon's memory, and have no answer. But to close a descriptor may wait for the store.
    case FUSE_INTERRUPT,
      FUSE_FORGET where !target.fileSystem.holdsDescriptor(header.node),
      FUSE_BATCH_FORGET where unsafe !bytes.forgottenNodes.contains(where: target.fileSystem.holdsDescriptor):
      target.counts.count(header.operation)
      var buffer = unsafe fuse_buf()
      unsafe buffer.mem = request.baseAddress
      unsafe buffer.size = count
      unsafe fuse_session_process_buf(session, &buffer)
    default:
      if header.contents != nil, target.fileSystem.refuses(header) {
        target.counts.count(header.operation)
        unsafe sendError(EACCES, to: header.unique, session)
      } else {
        unsafe device.backlog.add(bytes)
      }
    }
    // It may have carried plaintext.
    unsafe Memory.wipe(UnsafeMutableRawBufferPointer(rebasing: request[..<count]))
  }
}

/// Answers a request that libfuse does not know, or that another thread is serving. The kernel ignores this if the
/// request was answered already.
func sendError(_ error: CInt, to unique: UInt64, _ session: OpaquePointer) {
  var header = fuse_out_header(len: UInt32(MemoryLayout<fuse_out_header>.size), error: -error, unique: unique)
  unsafe withUnsafeBytes(of: &header) { _ = unsafe Glibc.write(fuse_session_fd(session), $0.baseAddress, $0.count) }
}
