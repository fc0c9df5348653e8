import Glibc
import SystemPackage

/// A connected or listening Unix socket, closed when the value is destroyed.
package struct LocalSocket: ~Copyable, Sendable {
  package let rawValue: CInt

  /// Takes ownership of an open socket.
  package init(owning rawValue: CInt) {
    self.rawValue = rawValue
  }

  /// A new stream or datagram socket.
  package init(isBlocking: Bool = true, isDatagram: Bool = false) throws(Errno) {
    let type = isDatagram ? SOCK_DGRAM.rawValue : SOCK_STREAM.rawValue
    let flags = type | SOCK_CLOEXEC.rawValue | (isBlocking ? 0 : SOCK_NONBLOCK.rawValue)
    rawValue = socket(AF_UNIX, CInt(flags), 0)
    guard rawValue >= 0 else { throw Errno(rawValue: errno) }
  }

  /// Two stream sockets that are connected to each other (socketpair(2)). The caller owns both.
  package static func pair() throws(Errno) -> (CInt, CInt) {
    var ends: (CInt, CInt) = (-1, -1)
    let result = unsafe withUnsafeMutablePointer(to: &ends) { pointer in
      unsafe pointer.withMemoryRebound(to: CInt.self, capacity: 2) {
        unsafe socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, $0)
      }
    }
    guard result == 0 else { throw Errno(rawValue: errno) }
    return ends
  }

  deinit {
    LockOrder.requireCallsAllowed("close")
    if rawValue >= 0 { close(rawValue) }
  }

  /// Returns the number without closing the socket.
  package consuming func release() -> CInt {
    let rawValue = rawValue
    discard self
    return rawValue
  }

  /// Connects to the socket with a path.
  package func connect(to path: String) throws(Errno) {
    let result = unsafe withAddress(of: path) { address, length in unsafe Glibc.connect(rawValue, address, length) }
    guard result == 0 else { throw Errno(rawValue: result ?? ENAMETOOLONG) }
  }

  /// Binds the socket to a path.
  package func bind(to path: String) throws(Errno) {
    let result = unsafe withAddress(of: path) { address, length in unsafe Glibc.bind(rawValue, address, length) }
    guard result == 0 else { throw Errno(rawValue: result ?? ENAMETOOLONG) }
  }

  /// Sends all bytes. If the peer is gone, this is an error and not a signal.
  package func send(_ bytes: UnsafeRawBufferPointer) throws(Errno) {
    LockOrder.requireCallsAllowed("send")
    var done = 0
    while done < bytes.count {
      let count = unsafe Glibc.send(rawValue, bytes.baseAddress! + done, bytes.count - done, CInt(MSG_NOSIGNAL))
      if count < 0 {
        if errno == EINTR { continue }
        throw Errno(rawValue: errno)
      }
      done += count
    }
  }

  /// Receives available bytes, up to the buffer's size; 0 if the peer has closed the connection.
  package func receive(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
    LockOrder.requireCallsAllowed("recv")
    while true {
      let count = unsafe recv(rawValue, buffer.baseAddress, buffer.count, 0)
      if count >= 0 { return count }
      if errno != EINTR { throw Errno(rawValue: errno) }
    }
  }

  /// Sends all bytes.
  package func send(_ bytes: [UInt8]) throws(Errno) {
    try unsafe bytes.withUnsafeBufferPointer { (buffer) throws(Errno) in
      try unsafe send(UnsafeRawBufferPointer(buffer))
    }
  }

  /// Receives available bytes into the start of the array.
  package func receive(into bytes: inout [UInt8]) throws(Errno) -> Int {
    try unsafe bytes.withUnsafeMutableBufferPointer { (buffer) throws(Errno) in
      try unsafe receive(into: UnsafeMutableRawBufferPointer(buffer))
    }
  }

  /// Makes a blocking send or receive fail with `EAGAIN` after this many seconds; 0 means never.
  package func setTimeout(_ option: Timeout, seconds: Int) throws(Errno) {
    var time = timeval(tv_sec: seconds, tv_usec: 0)
    let length = socklen_t(MemoryLayout<timeval>.size)
    guard unsafe setsockopt(rawValue, SOL_SOCKET, option.rawValue, &time, length) == 0 else {
      throw Errno(rawValue: errno)
    }
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
    // `struct ucred` and the option's number are missing from Swift's Glibc.
    var credentials: (process: Int32, user: UInt32, group: UInt32) = (0, 0, 0)
    var length = socklen_t(MemoryLayout.size(ofValue: credentials))
    let peerCredentials: CInt = 17
    guard unsafe getsockopt(rawValue, SOL_SOCKET, peerCredentials, &credentials, &length) == 0 else {
      throw Errno(rawValue: errno)
    }
    return (credentials.process, credentials.user)
  }

  /// Calls `body` with the address of a path. Returns 0 or the error number; `nil` for a path that is too long.
  private func withAddress(of path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt) -> CInt? {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    let fits = unsafe withUnsafeMutableBytes(of: &address.sun_path) { buffer in
      guard bytes.count < buffer.count else { return false }
      unsafe buffer.copyBytes(from: bytes)
      return true
    }
    guard fits else { return nil }
    let result = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        unsafe body(pointer, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    return result == 0 ? 0 : errno
  }
}
