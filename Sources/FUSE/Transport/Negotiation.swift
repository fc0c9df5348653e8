import CFUSE
import Glibc
import Synchronization

/// What protectfs asks of the kernel when the connection starts (FUSE_INIT), the parts that libfuse 3.14 does not know
/// included.
final class Negotiation: Sendable {
  /// Several daemons or people may write the backing directory: the kernel may cache nothing for long.
  let isShared: Bool

  /// The `unique` of the FUSE_INIT request while it is being served, 0 otherwise.
  private let pendingInit = Atomic<UInt64>(0)
  private let kernelHandlesPrivileges = Atomic<Bool>(false)

  init(isShared: Bool) {
    self.isShared = isShared
  }

  /// Without it each write(2) asks for `security.capability` first.
  private static let handlesPrivileges = UInt32(FUSE_HANDLE_KILLPRIV_V2)

  /// Chooses capabilities and sizes.
  func negotiate(_ connection: UnsafeMutablePointer<fuse_conn_info>) {
    func want(_ capability: Int32) {
      let bit = UInt32(bitPattern: capability)
      unsafe connection.pointee.want |= unsafe connection.pointee.capable & bit
    }
    func refuse(_ capability: Int32) {
      unsafe connection.pointee.want &= ~UInt32(bitPattern: capability)
    }
    want(FUSE_CAP_ASYNC_READ)
    want(FUSE_CAP_ATOMIC_O_TRUNC)
    want(FUSE_CAP_PARALLEL_DIROPS)
    want(FUSE_CAP_READDIRPLUS)
    want(FUSE_CAP_READDIRPLUS_AUTO)
    want(FUSE_CAP_POSIX_ACL)
    want(FUSE_CAP_DONT_MASK)
    // Of a direct write that goes on after io_submit(2) the kernel drops the pages when it begins, and not when it is done: a
    // reader in between would have the old ones for good (fuse_direct_IO in fs/fuse/file.c). libfuse asks for it unless told.
    refuse(FUSE_CAP_ASYNC_DIO)
    // Data is transformed on its way, so there is nothing to splice; and splicing takes it out of the worker's buffer.
    refuse(FUSE_CAP_SPLICE_READ)
    refuse(FUSE_CAP_SPLICE_WRITE)
    refuse(FUSE_CAP_SPLICE_MOVE)
    // Version 2 of the same is set behind libfuse's back, in `amendReply`.
    refuse(FUSE_CAP_HANDLE_KILLPRIV)
    if isShared {
      want(FUSE_CAP_AUTO_INVAL_DATA)
    } else {
      want(FUSE_CAP_WRITEBACK_CACHE)
      want(FUSE_CAP_CACHE_SYMLINKS)
      refuse(FUSE_CAP_AUTO_INVAL_DATA)
      want(FUSE_CAP_EXPLICIT_INVAL_DATA)
    }
    unsafe connection.pointee.max_write = UInt32(Session.maximumTransfer)
    unsafe connection.pointee.max_readahead = UInt32(Session.maximumTransfer)
    unsafe connection.pointee.max_background = 64
    unsafe connection.pointee.congestion_threshold = 48
    unsafe connection.pointee.time_gran = 1
  }

  /// Looks at FUSE_INIT on its way in, and whether the kernel offers what libfuse does not know.
  func inspectRequest(_ bytes: UnsafeRawBufferPointer, _ header: RequestHeader) {
    // Old kernels send no more than this.
    let shortest = MemoryLayout<fuse_in_header>.size + MemoryLayout<fuse_init_in>.offset(of: \.flags)! + 4
    guard bytes.count >= shortest else { return }
    let offered = unsafe bytes.load(fromByteOffset: shortest - 4, as: UInt32.self)
    kernelHandlesPrivileges.store(offered & Self.handlesPrivileges != 0, ordering: .relaxed)
    pendingInit.store(header.unique, ordering: .relaxed)
  }

  /// Looks at a reply on its way out: the one to FUSE_INIT gets the flags that libfuse does not know.
  func amendReply(_ parts: UnsafeMutablePointer<iovec>, count: Int) {
    let pending = pendingInit.load(ordering: .relaxed)
    guard pending != 0, count >= 2, let header = unsafe parts[0].iov_base, let body = unsafe parts[1].iov_base else {
      return
    }
    let answer = unsafe header.load(as: fuse_out_header.self)
    guard answer.unique == pending else { return }
    pendingInit.store(0, ordering: .relaxed)
    let place = MemoryLayout<fuse_init_out>.offset(of: \.flags)!
    guard answer.error == 0, unsafe parts[1].iov_len >= place + 4, kernelHandlesPrivileges.load(ordering: .relaxed)
    else { return }
    let flags = unsafe body.load(fromByteOffset: place, as: UInt32.self)
    unsafe body.storeBytes(of: flags | Self.handlesPrivileges, toByteOffset: place, as: UInt32.self)
  }
}
