import CFUSE
import Glibc
import ProtectfsIO
import SystemPackage

/// A mounted file system: the connection to the kernel and the threads that serve it.
@safe package final class Session: @unchecked Sendable {
  /// The maximum length of a read or write in bytes: `FUSE_MAX_MAX_PAGES` pages of 4 KiB.
  package static let maximumTransfer = 1 << 20
  /// The part of a worker's buffer that a read of `count` bytes may use: what comes in front of and behind them in
  /// blocks of the slack, and a little more. Of the largest transfer, which is of whole blocks, that is all of it.
  package static func room(
    for count: Int, in buffer: UnsafeMutableRawBufferPointer
  ) -> UnsafeMutableRawBufferPointer {
    unsafe UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(count + 3 * Worker.slack))
  }

  let session: OpaquePointer
  let target: DispatchTarget
  /// The second transport, if the kernel may be offered it.
  private(set) var rings: RequestRings?
  let backlog: Backlog
  /// The request that each worker serves.
  let served: [ServedRequest]
  /// Set before requests are served.
  private(set) var ticks = WatchTicks()

  /// Prepares a session with `threads` workers. `options` are mount options as for `-o`; `counts` counts the requests.
  package init(
    fileSystem: any LowLevelFileSystem, options: [String], hasOtherWriters: Bool, threads: Int, counts: RequestCounts
  ) throws(SessionError) {
    do throws(Errno) { backlog = try Backlog() } catch { throw .outOfMemory }
    served = (0..<threads).map { _ in ServedRequest() }
    target = DispatchTarget(
      fileSystem: fileSystem, negotiation: Negotiation(hasOtherWriters: hasOtherWriters, workers: threads),
      counts: counts)
    var arguments = unsafe fuse_args(argc: 0, argv: nil, allocated: 0)
    defer { unsafe fuse_opt_free_args(&arguments) }
    for argument in ["protectfs"] + options.flatMap({ ["-o", $0] }) {
      guard unsafe fuse_opt_add_arg(&arguments, argument) == 0 else { throw .outOfMemory }
    }
    var table = operationTable(flushesOnClose: fileSystem.flushesOnClose)
    let created = unsafe session_new(
      &arguments, &table, MemoryLayout<fuse_lowlevel_ops>.size, Unmanaged.passUnretained(target).toOpaque())
    guard let created = unsafe created else { throw .badOptions }
    unsafe session = created
    unsafe fileSystem.kernelAttributes.began(created)
  }

  deinit {
    unsafe fuse_session_destroy(session)
  }

  /// Mounts at a path, and takes over reading from and writing to the kernel's device.
  package func mount(at path: String) throws(SessionError) {
    guard unsafe fuse_session_mount(session, path) == 0 else { throw .notMounted }
    do throws(SessionError) {
      try unsafe connect(to: fuse_session_fd(session))
    } catch {
      unsafe fuse_session_unmount(session)
      throw error
    }
  }

  /// Takes over reading from and writing to a device, which belongs to the session from now on.
  package func connect(to device: CInt) throws(SessionError) {
    var transport = fuse_custom_io()
    // Workers read for themselves, but libfuse requires both functions.
    unsafe transport.read = { descriptor, buffer, size, _ in unsafe Glibc.read(descriptor, buffer, size) }
    unsafe transport.writev = { descriptor, parts, count, userData in
      let target = unsafe Unmanaged<DispatchTarget>.fromOpaque(userData!)
      return unsafe target._withUnsafeGuaranteedRef { unsafe $0.send(parts!, count: Int(count), to: descriptor) }
    }
    guard unsafe fuse_session_custom_io(session, &transport, device) == 0 else { throw .notMounted }
  }

  /// Whether the kernel's module has rings turned on; `nil` if the kernel knows none.
  package static var kernelOffersRings: Bool? { RequestRings.isOffered }

  /// The most processors that rings are made for.
  package static var mostRingProcessors: Int { RequestRings.mostProcessors }

  /// Makes rings, so that the kernel can be asked to pass requests through them. To be called when the file system is
  /// mounted there, and before ``serve(latency:ticks:)``: they cannot be made once the process is confined. `files` are
  /// the regular files that the kernel knows.
  ///
  /// - Throws: `ENOTSUP` if there are more than ``mostRingProcessors``, `EPERM` if rings are forbidden, and what else
  ///   the system calls fail with.
  package func makeRings(mountPoint: String, files: SharedNumbers) throws(Errno) {
    let rings = try unsafe RequestRings(
      device: fuse_session_fd(session), mountPoint: mountPoint, files: files, threads: served.count)
    self.rings = rings
    target.rings = rings
  }

  /// How many threads ``serve(latency:ticks:)`` starts at once, with `workers` workers.
  package static func threadCount(workers: Int, hasRings: Bool) -> Int {
    // The reserve, the one that has pages written back, and the one that answers then.
    workers + 3 + (hasRings ? RequestRings.firstThreadCount : 0)
  }

  /// Serves requests until the file system has been unmounted. `latency` is held during bursts of requests. `started`
  /// is called when all threads have been started, with whether the kernel sends requests: if nothing was agreed on
  /// with its first one, there is a mount, which the caller is to take away, and nothing more.
  package func serve(latency: WakeupLatency?, ticks: WatchTicks = WatchTicks(), started: (Bool) -> Void = { _ in }) {
    self.ticks = ticks
    let device = unsafe RequestDevice(fuse_session_fd(session), backlog)
    let hold = latency.map { BurstHold($0) }
    let watch = DeviceWatch(device, workers: served.count, hold: hold, ticks: ticks)
    target.fileSystem.forgets.began(device, served + [target.reserveRequest])
    if let rings {
      target.negotiation.offersRings = rings.start(self, hold) {
        unsafe Worker(session, target, device, watch, $0.served, ringAnswer: $0.answer)
      }
    }
    let threads =
      served.enumerated().map { (index, served) in
        Thread(name: "request-\(index)", stackSize: 1 << 20) { [self] in
          unsafe Worker(session, target, device, watch, served).run(as: index)
          target.negotiation.hasEnded.post()
        }
      } + [Thread(name: "reserve") { [self] in unsafe Reserve(session, target, device, watch).run() }]
    let queue = target.writebackQueue
    let writeback = Thread(name: "writeback") { [self] in queue.writeBack(self) }
    let seeks = Thread(name: "seeks") { queue.answer() }
    let readAhead = rings == nil ? nil : Thread(name: "read-ahead") { [target] in target.readAheadQueue.run() }
    target.negotiation.hasEnded.wait()
    started(target.negotiation.isAgreed)
    for thread in threads { thread.join() }
    rings?.end()
    target.readAheadQueue.stop()
    readAhead?.join()
    queue.stop()
    writeback.join()
    seeks.join()
  }

  /// Makes the kernel write a node's dirty pages back, and drop all its pages and attributes. Blocks until the kernel
  /// has done so: a handler must not call this, nor may a lock that a handler takes be held. It is no error if the
  /// kernel does not know the node.
  package func invalidate(_ node: NodeID) throws(Errno) {
    LockOrder.requireNoneHeld("an invalidation")
    let result = unsafe fuse_lowlevel_notify_inval_inode(session, node.rawValue, 0, 0)
    if result < 0, result != -ENOENT { throw Errno(rawValue: -result) }
  }

  /// Waits until every write(2) to a regular file that is under way has ended. Such a call holds the inode's lock. A
  /// notification of a name in the file takes that before it finds that the file is no directory
  /// (`fuse_reverse_inval_entry()` in fs/fuse/dir.c), and fails for that reason if for no other. Kernels after Linux
  /// 6.18 look first: there, the removal of an attribute that no file has takes it (`vfs_removexattr()` in fs/xattr.c),
  /// by the file's `path` in the mount; without one nothing is waited for. For the caller, as for ``invalidate(_:)``.
  package func awaitWrites(to node: NodeID, at path: PathName?) {
    LockOrder.requireNoneHeld("a notification")
    if Self.waitsByPath {
      // In place of the file there may be a link by now, to a file system that never answers.
      try? path?.removeLinkAttribute("user.protectfs.none")
    } else {
      _ = unsafe fuse_lowlevel_notify_inval_entry(session, node.rawValue, ".", 1)
    }
  }

  /// Whether ``awaitWrites(to:at:)`` needs paths.
  package static let waitsByPath: Bool = {
    #if DEBUG
      if unsafe getenv("PROTECTFS_TEST_LATER_KERNEL") != nil { return true }
    #endif
    return Process.kernelVersion >= (6, 19)
  }()

  /// Gives the calling thread a table of descriptors of its own, which has the connection alone, or nothing: whatever
  /// the thread waits for when the daemon is killed, the daemon's other descriptors are closed. Among these are the
  /// rings, and requests that a killed thread has not taken from one end only with it.
  package func isolateThread(keepsConnection: Bool = true) {
    Thread.keepOnly(keepsConnection ? unsafe fuse_session_fd(session) : -1)
  }

  /// Whether the kernel may still send requests, because the file system is still held somewhere. Not valid after
  /// ``unmount()``.
  package var isConnected: Bool {
    var event = pollfd(fd: unsafe fuse_session_fd(session), events: 0, revents: 0)
    // The kernel reports an ended connection in this way (fuse_dev_poll() in fs/fuse/dev.c).
    return unsafe poll(&event, 1, 0) >= 0 && Int32(event.revents) & POLLERR == 0
  }

  /// Another descriptor of the connection, for a process that outlives this one.
  package func connection() throws(Errno) -> KernelConnection {
    try KernelConnection(of: unsafe fuse_session_fd(session))
  }

  /// Ends the connection, and unmounts if that has not been done yet.
  package func unmount() {
    unsafe fuse_session_unmount(session)
  }
}

/// The reason why a session did not start. libfuse has printed the details of its own.
package enum SessionError: Error, Equatable, CustomStringConvertible {
  case outOfMemory
  case badOptions
  case notMounted
  case notAgreed
  case tooFewThreads(needed: Int, available: Int)

  package var description: String {
    switch self {
    case .badOptions: "libfuse does not take the options; check what was given with -o"
    case .notAgreed:
      "the kernel and libfuse do not agree on how to mount; what libfuse said is above. Check what was given with -o"
    case .notMounted: "the file system could not be mounted; what libfuse said is above"
    case .outOfMemory: "there is not enough memory"
    case .tooFewThreads(let needed, let available):
      "a mount needs \(needed) threads, and only \(available) can be started: the user (ulimit -u) or the control group "
        + "(pids.max) has too many; end some, raise the limit, or serve with fewer (-o threads=)"
    }
  }
}
