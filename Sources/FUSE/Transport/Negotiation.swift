import CFUSE
import Glibc
import ProtectfsIO
import Synchronization

/// The options that protectfs requests from the kernel when the connection starts (FUSE_INIT), including those that
/// libfuse 3.14 does not know.
final class Negotiation: @unchecked Sendable {
  /// Several daemons or users may write the backing directory, so the kernel may cache nothing for long.
  let hasOtherWriters: Bool
  /// How many requests that nobody waits for the kernel has under way; the next it keeps in a second queue. More than
  /// there are workers, and where it copies pages that it writes back more than it makes of its own accord, which only
  /// synchronisations exceed then.
  let mostBackground: UInt32

  /// The `unique` of the FUSE_INIT request while it is being served, 0 otherwise.
  private let pendingInit = Atomic<UInt64>(0)
  private let kernelHandlesPrivileges = Atomic<Bool>(false)
  /// There are rings that the kernel may pass requests through. Set before the first request.
  var offersRings = false
  private let kernelOffersRings = Atomic<Bool>(false)
  /// FUSE_INIT was answered, and the kernel sends requests.
  private(set) var isAgreed = false
  /// Posted when FUSE_INIT was answered, or no request is served any more.
  let hasEnded = Semaphore()

  init(hasOtherWriters: Bool, workers: Int) {
    self.hasOtherWriters = hasOtherWriters
    mostBackground = UInt32(max(Session.copiesPages ? 128 : 64, 2 * workers))
  }

  /// Without this flag, each write(2) first reads `security.capability`.
  private static let handlesPrivileges = UInt32(FUSE_HANDLE_KILLPRIV_V2)

  /// `FUSE_OVER_IO_URING`, in the second word of flags.
  private static let passesThroughRings: UInt32 = 1 << 9

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
    // For a direct write that continues after io_submit(2), the kernel drops the pages when the write begins and not
    // when it is done. A reader in between would keep the old pages (fuse_direct_IO in fs/fuse/file.c). libfuse
    // requests this capability unless it is refused.
    refuse(FUSE_CAP_ASYNC_DIO)
    // Data is transformed on its way, so there is nothing to splice, and splicing takes the data out of the worker's
    // buffer.
    refuse(FUSE_CAP_SPLICE_READ)
    refuse(FUSE_CAP_SPLICE_WRITE)
    refuse(FUSE_CAP_SPLICE_MOVE)
    // `amendReply` sets version 2 of this capability without libfuse's knowledge.
    refuse(FUSE_CAP_HANDLE_KILLPRIV)
    if hasOtherWriters {
      want(FUSE_CAP_AUTO_INVAL_DATA)
    } else {
      want(FUSE_CAP_WRITEBACK_CACHE)
      want(FUSE_CAP_CACHE_SYMLINKS)
      refuse(FUSE_CAP_AUTO_INVAL_DATA)
      want(FUSE_CAP_EXPLICIT_INVAL_DATA)
    }
    unsafe connection.pointee.max_write = UInt32(Session.maximumTransfer)
    unsafe connection.pointee.max_readahead = UInt32(Session.maximumTransfer)
    unsafe connection.pointee.max_background = mostBackground
    unsafe connection.pointee.congestion_threshold = max(48, mostBackground * 3 / 8)
    unsafe connection.pointee.time_gran = 1
  }

  /// Reads an incoming FUSE_INIT to find out whether the kernel offers what libfuse does not know.
  func inspectRequest(_ bytes: UnsafeRawBufferPointer, _ header: RequestHeader) {
    // Old kernels send no more than this.
    let shortest = MemoryLayout<fuse_in_header>.size + MemoryLayout<fuse_init_in>.offset(of: \.flags)! + 4
    guard bytes.count >= shortest else { return }
    let offered = unsafe bytes.load(fromByteOffset: shortest - 4, as: UInt32.self)
    kernelHandlesPrivileges.store(offered & Self.handlesPrivileges != 0, ordering: .relaxed)
    let more = MemoryLayout<fuse_in_header>.size + MemoryLayout<fuse_init_in>.offset(of: \.flags2)!
    if offered & UInt32(FUSE_INIT_EXT) != 0, bytes.count >= more + 4 {
      let offered = unsafe bytes.load(fromByteOffset: more, as: UInt32.self)
      kernelOffersRings.store(offered & Self.passesThroughRings != 0, ordering: .relaxed)
    }
    pendingInit.store(header.unique, ordering: .relaxed)
  }

  /// Sends what libfuse has put together with `send`, which returns a count of bytes. If that is the reply to
  /// FUSE_INIT, the flags that libfuse does not know are added, and `begin` is called if the kernel then passes
  /// requests through the rings.
  func amendingReply(
    _ parts: UnsafeMutablePointer<iovec>, count: Int, _ send: () -> Int, begin: () -> Void
  ) -> Int {
    let pending = pendingInit.load(ordering: .relaxed)
    guard pending != 0, let answer = unsafe parts[0].iov_base?.load(as: fuse_out_header.self), answer.unique == pending
    else { return send() }
    pendingInit.store(0, ordering: .relaxed)
    let usesRings = unsafe answer.error == 0 && count >= 2 && amend(parts[1])
    let result = send()
    isAgreed = answer.error == 0 && result > 0
    if usesRings, isAgreed { begin() }
    hasEnded.post()
    return result
  }

  /// Returns whether the kernel is asked to use rings.
  private func amend(_ part: iovec) -> Bool {
    let place = MemoryLayout<fuse_init_out>.offset(of: \.flags)!
    let secondPlace = MemoryLayout<fuse_init_out>.offset(of: \.flags2)!
    guard let body = unsafe part.iov_base, unsafe part.iov_len >= secondPlace + 4 else { return false }
    func add(_ flags: UInt32, at place: Int) {
      let former = unsafe body.load(fromByteOffset: place, as: UInt32.self)
      unsafe body.storeBytes(of: former | flags, toByteOffset: place, as: UInt32.self)
    }
    if kernelHandlesPrivileges.load(ordering: .relaxed) { add(Self.handlesPrivileges, at: place) }
    let usesRings = offersRings && kernelOffersRings.load(ordering: .relaxed)
    if usesRings {
      add(UInt32(FUSE_INIT_EXT), at: place)
      add(Self.passesThroughRings, at: secondPlace)
    }
    return usesRings
  }
}
