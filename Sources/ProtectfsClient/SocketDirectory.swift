import Glibc
import ProtectfsIO
import SystemPackage

/// An open directory for control sockets, which only its owner can enter.
///
/// Sockets are reached through the descriptor, so that the directory cannot be replaced after the check.
package struct SocketDirectory: ~Copyable, Sendable {
  package let rawValue: CInt

  /// Opens the directory, and checks that it belongs to the user and is closed to others.
  ///
  /// - Throws: `EPERM` if that is not so; `ELOOP` or `ENOTDIR` if it is not a directory.
  package init(opening path: String, of user: UInt32) throws(Errno) {
    rawValue = unsafe open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    guard rawValue >= 0 else { throw Errno(rawValue: errno) }
    var status = stat()
    guard unsafe fstat(rawValue, &status) == 0 else { throw Errno(rawValue: errno) }
    guard status.st_uid == user, status.st_mode & 0o077 == 0 else { throw .notPermitted }
  }

  /// Creates the directory with mode 0700 if necessary, and opens it.
  package init(creating path: String) throws(Errno) {
    if unsafe mkdir(path, 0o700) != 0 && errno != EEXIST { throw Errno(rawValue: errno) }
    try self.init(opening: path, of: geteuid())
  }

  deinit {
    if rawValue >= 0 { close(rawValue) }
  }

  /// A path of a name in the directory, which is valid while the directory is open and short enough for a socket
  /// address.
  package func path(of name: String) -> String { "/proc/self/fd/\(rawValue)/\(name)" }

  /// Connects to a socket in the directory.
  package func connect(to name: String) throws(Errno) -> LocalSocket {
    let socket = try LocalSocket()
    try socket.connect(to: path(of: name))
    return socket
  }

  /// Whether a process listens on a socket in the directory. Does not wait for a process that accepts no connections.
  ///
  /// - Throws: `ENOENT` if there is no socket.
  package func isServed(_ name: String) throws(Errno) -> Bool {
    let socket = try LocalSocket(isBlocking: false)
    do throws(Errno) {
      try socket.connect(to: path(of: name))
    } catch {
      switch error {
      case .connectionRefused: return false
      // Its queue of connections is full.
      case .resourceTemporarilyUnavailable: return true
      default: throw error
      }
    }
    return true
  }
}
