import CProtectfsIO
import ProtectfsLibc
import SystemPackage

/// The kernel's connection to a FUSE file system, through a separate descriptor. The connection exists as long as this
/// value, even if the daemon that made it has been killed.
package struct KernelConnection: ~Copyable, Sendable {
  private let descriptor: Descriptor

  /// Another descriptor of the connection of an open `/dev/fuse`. It may be used while that is open.
  package init(of device: CInt) throws(Errno) {
    descriptor = Descriptor(owning: try check(linux_clone_fuse_device(device)))
  }

  /// What was received from a socket.
  package struct Received: ~Copyable {
    package let count: Int
    package var connection: KernelConnection?
  }

  /// Receives bytes and perhaps a connection from a Unix socket; no bytes if the other end was closed.
  package static func receive(
    from socket: borrowing LocalSocket, into bytes: inout [UInt8]
  ) throws(Errno) -> Received {
    var received: CInt = -1
    let socket = socket.rawValue
    let count = try unsafe bytes.withMutableBytes { (bytes) throws(Errno) in
      try check(unsafe linux_receive_with_descriptor(socket, bytes.baseAddress, bytes.count, &received))
    }
    return Received(count: count, connection: received < 0 ? nil : KernelConnection(owning: received))
  }

  private init(owning number: CInt) {
    descriptor = Descriptor(owning: number)
  }

  /// Sends the connection through a Unix socket, with bytes.
  package func send(by socket: borrowing LocalSocket, with bytes: [UInt8]) throws(Errno) {
    let socket = socket.rawValue
    try check(
      unsafe bytes.withUnsafeBytes {
        unsafe linux_send_with_descriptor(socket, $0.baseAddress, $0.count, descriptor.rawValue)
      })
  }

  /// Takes the kernel's requests and refuses them with an error, until the connection has ended or the other end of a
  /// socket is closed. Each request that it takes is answered.
  package func refuseRequests(_ error: Errno, until stop: borrowing LocalSocket) {
    linux_refuse_fuse_requests(descriptor.rawValue, error.rawValue, stop.rawValue)
  }

  /// Opens the file that ends the connection of a file system when it is written to. `device` is `MAJOR:MINOR`.
  ///
  /// - Throws: `ENOENT` if it is not to be had: the kernel's list of connections is mounted nowhere, and the caller may
  ///   not mount it.
  package static func openAbort(of device: some StringProtocol) throws(Errno) -> Descriptor {
    Descriptor(owning: try check(linux_open_fuse_abort(try minor(of: device))))
  }

  /// Ends the connection, by the file that ``openAbort(of:)`` has opened: every request fails, of now and later.
  package static func abort(_ file: borrowing Descriptor) throws(Errno) { try check(linux_abort_fuse(file.rawValue)) }

  /// Has the kernel ask a mounted file system for its status, and waits for the answer, whatever it is. `device` is
  /// `MAJOR:MINOR`. That is no use of the mount, for which umount(8) would fail; but an umount(8) waits for the answer.
  /// Returns whether the kernel can be told so: not on every processor, and it may be forbidden.
  package static func askForStatus(of device: some StringProtocol) -> Bool {
    guard let minor = try? minor(of: device) else { return false }
    return ![-ENOSYS, -EPERM].contains(linux_ask_fuse_status(minor))
  }

  private static func minor(of device: some StringProtocol) throws(Errno) -> UInt32 {
    guard let minor = device.split(separator: ":").last.flatMap({ UInt32($0) }) else { throw .invalidArgument }
    return minor
  }

  /// Whether the file system is gone, since nothing holds it.
  package var hasNoFileSystem: Bool { linux_probe_fuse(descriptor.rawValue) == -ENOENT }

  /// Makes the kernel write back and drop the pages of a node. Waits for that, so another thread must take the
  /// requests.
  ///
  /// - Throws: `ENOENT` if the kernel does not know the node.
  package func dropPages(of node: UInt64) throws(Errno) {
    try check(linux_drop_fuse_pages(descriptor.rawValue, node))
  }
}
