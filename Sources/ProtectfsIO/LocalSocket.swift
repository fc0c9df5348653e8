import ProtectfsLibc
import SystemPackage

/// A connected or listening Unix socket, closed when the value is destroyed.
package struct LocalSocket: ~Copyable, Sendable {
  package let descriptor: Descriptor
  package var rawValue: CInt { descriptor.rawValue }

  /// Takes ownership of an open socket.
  package init(owning rawValue: CInt) {
    descriptor = Descriptor(owning: rawValue)
  }

  /// A new stream or datagram socket.
  package init(isBlocking: Bool = true, isDatagram: Bool = false) throws(Errno) {
    let type = isDatagram ? LibraryConstant.datagram : LibraryConstant.stream
    let flags = type | LibraryConstant.closeOnExec | (isBlocking ? 0 : LibraryConstant.nonBlocking)
    self.init(owning: try call("socket", socket(AF_UNIX, flags, 0)))
  }

  /// Two stream sockets that are connected to each other (socketpair(2)). The caller owns both.
  package static func pair() throws(Errno) -> (CInt, CInt) {
    var ends: [CInt] = [-1, -1]
    try call("socketpair", unsafe socketpair(AF_UNIX, LibraryConstant.stream | LibraryConstant.closeOnExec, 0, &ends))
    return (ends[0], ends[1])
  }

  /// Returns the number without closing the socket.
  package consuming func release() -> CInt { descriptor.release() }

  /// Connects to the socket with a path.
  package func connect(to path: String) throws(Errno) {
    try unsafe withAddress(of: path) { (address, length) throws(Errno) in
      try call("connect", unsafe ProtectfsLibc.connect(rawValue, address, length))
    }
  }

  /// Binds the socket to a path.
  package func bind(to path: String) throws(Errno) {
    try unsafe withAddress(of: path) { (address, length) throws(Errno) in
      try call("bind", unsafe ProtectfsLibc.bind(rawValue, address, length))
    }
  }

  /// Lets clients connect, of whom as many may wait as `backlog` says (listen(2)).
  package func listen(backlog: Int) throws(Errno) {
    try call("listen", ProtectfsLibc.listen(rawValue, CInt(clamping: backlog)))
  }

  /// Waits for a client to connect (accept(2)).
  package func accept() throws(Errno) -> LocalSocket {
    let number = try call("accept", ProtectfsLibc.accept(rawValue, nil, nil))
    _ = fcntl(number, F_SETFD, FD_CLOEXEC)
    return LocalSocket(owning: number)
  }

  /// Ends the connection, whoever else has the socket; calls that wait for it return (shutdown(2)).
  package func shutDown() { Self.shutDown(rawValue) }

  /// The same for the socket with a number.
  package static func shutDown(_ number: CInt) {
    // It fails only if the connection has ended.
    _ = shutdown(number, CInt(SHUT_RDWR))
  }

  /// Ends what is sent; what the other end sends is still received.
  package func endSending() { _ = shutdown(rawValue, CInt(SHUT_WR)) }

  /// Sends all bytes. If the peer is gone, this is an error and not a signal.
  package func send(_ bytes: UnsafeRawBufferPointer) throws(Errno) {
    var done = 0
    while done < bytes.count {
      done += try call(
        "send", unsafe ProtectfsLibc.send(rawValue, bytes.baseAddress! + done, bytes.count - done, CInt(MSG_NOSIGNAL)))
    }
  }

  /// Receives available bytes, up to the buffer's size; 0 if the peer has closed the connection.
  package func receive(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
    try unsafe descriptor.readNext(into: buffer)
  }

  /// Sends all bytes.
  package func send(_ bytes: [UInt8]) throws(Errno) {
    try unsafe bytes.withBytes { (bytes) throws(Errno) in try unsafe send(bytes) }
  }

  /// Receives available bytes into the start of the array.
  package func receive(into bytes: inout [UInt8]) throws(Errno) -> Int {
    try unsafe bytes.withMutableBytes { (buffer) throws(Errno) in try unsafe receive(into: buffer) }
  }

  /// Makes a blocking send or receive fail with `EAGAIN` after this many seconds; 0 means never.
  package func setTimeout(_ option: Timeout, seconds: Int) throws(Errno) {
    var time = timeval(tv_sec: seconds, tv_usec: 0)
    let length = socklen_t(MemoryLayout<timeval>.size)
    try call("setsockopt", unsafe setsockopt(rawValue, SOL_SOCKET, option.rawValue, &time, length))
  }

  /// A direction, by the number of its socket option.
  package struct Timeout: Sendable {
    let rawValue: CInt
    package static let sending = Timeout(rawValue: SO_SNDTIMEO)
    package static let receiving = Timeout(rawValue: SO_RCVTIMEO)
  }

  /// The user of the process at the other end when the connection was made (unix(7), `SO_PEERCRED`).
  package func peerUser() throws(Errno) -> UInt32 { try peer().user }

  /// The process at the other end, or the one that made it listen; 0 if that is in another PID namespace.
  package func peerProcess() throws(Errno) -> Int32 { try peer().process }

  private func peer() throws(Errno) -> (process: Int32, user: UInt32) {
    // `struct ucred` and the option's number, 17, are missing from Swift's Glibc.
    var credentials: (process: Int32, user: UInt32, group: UInt32) = (0, 0, 0)
    var length = socklen_t(MemoryLayout.size(ofValue: credentials))
    try call("getsockopt", unsafe getsockopt(rawValue, SOL_SOCKET, 17, &credentials, &length))
    return (credentials.process, credentials.user)
  }

  /// Calls `body` with the address of a path.
  ///
  /// - Throws: `ENAMETOOLONG` for a path that is too long, and what `body` throws.
  private func withAddress(
    of path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) throws(Errno) -> Void
  ) throws(Errno) {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { throw .fileNameTooLong }
    unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
    try unsafe withUnsafePointer(to: &address) { (pointer) throws(Errno) in
      try unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { (pointer) throws(Errno) in
        try unsafe body(pointer, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
  }
}
