import CFUSE
import InProcessKernel
import ProtectfsIO
import SystemPackage

@testable import FUSE

/// A session that so many workers serve, and the kernel's end of it.
final class ServedSession {
  let fileSystem = HeldFileSystem()
  let session: Session
  let device: DeviceSocket
  let kernel: InProcessKernel
  let counts = RequestCounts()
  private let thread: ProtectfsIO.Thread

  init(workers: Int, hasOtherWriters: Bool = false) throws {
    device = try DeviceSocket()
    let session = try Session(
      fileSystem: fileSystem, options: [], hasOtherWriters: hasOtherWriters, threads: workers, counts: counts)
    self.session = session
    try session.connect(to: device.served)
    // The reserve looks often, so that no test waits for it.
    var ticks = WatchTicks()
    ticks.reserve = 2000
    thread = Thread(name: "serve") { [ticks] in session.serve(latency: nil, ticks: ticks) }
    kernel = try InProcessKernel(device)
  }

  /// Ends it; returns when all threads have.
  func end() {
    fileSystem.hold([])
    device.end()
    thread.join()
  }

  /// Asks for an inode's attributes, and does not wait.
  func beginStatus(of inode: UInt64) throws(Errno) -> UInt64 {
    try device.begin(FUSE_GETATTR, of: inode, Message(fuse_getattr_in()), by: .current)
  }

  func status(of inode: UInt64) throws(Errno) {
    _ = try device.ask(FUSE_GETATTR, of: inode, Message(fuse_getattr_in()), by: .current)
  }

  func beginRead(of inode: UInt64, count: UInt32 = 4096) throws(Errno) -> UInt64 {
    var arguments = fuse_read_in()
    arguments.fh = inode
    arguments.size = count
    return try device.begin(FUSE_READ, of: inode, Message(arguments), by: .current)
  }

  func beginWrite(of inode: UInt64, count: Int = 100) throws(Errno) -> UInt64 {
    var arguments = fuse_write_in()
    arguments.fh = inode
    arguments.size = UInt32(count)
    var message = Message(arguments)
    message.append(bytes: [UInt8](repeating: 7, count: count))
    return try device.begin(FUSE_WRITE, of: inode, message, by: .current)
  }

  /// Makes a directory in the root, without a look at what is there.
  func makeDirectory(_ name: PathName) throws(Errno) {
    var arguments = Message(fuse_mkdir_in(mode: 0o755, umask: 0))
    arguments.append(name)
    _ = try device.ask(FUSE_MKDIR, of: 1, arguments, by: .current)
  }

  /// What a request is answered with.
  func answer(to request: UInt64) -> Errno? {
    let error = device.waitForAnswer(to: request)
    return error == 0 ? nil : Errno(rawValue: -error)
  }
}
