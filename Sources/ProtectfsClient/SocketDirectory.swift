import ProtectfsIO
import SystemPackage

/// An open directory for control sockets, which only its owner can enter.
///
/// Sockets are reached through the descriptor, so that the directory cannot be replaced after the check.
package struct SocketDirectory: ~Copyable, Sendable {
  package let descriptor: Descriptor
  private let mount: String?

  /// Opens the directory, and checks that it belongs to the user and is closed to others.
  ///
  /// - Throws: `EPERM` if that is not so, or it is on a FUSE file system; `ELOOP` or `ENOTDIR` if it is not a
  ///   directory.
  package init(opening path: String, of user: UInt32) throws(Errno) {
    try self.init(Descriptor.open(PathName(path), [.path, .directory, .noFollow]), of: user)
  }

  /// The same, where the kernel knows all of the path: no file system is waited for.
  ///
  /// - Throws: `EAGAIN` if it does not.
  init(openingCached path: String, of user: UInt32) throws(Errno) {
    try self.init(Descriptor.openCached(PathName(path), followsLink: false), of: user)
  }

  private init(_ found: consuming Descriptor, of user: UInt32) throws(Errno) {
    if try Self.isFUSE(found) { throw .notPermitted }
    let descriptor = try found.open(".", [.readOnly, .directory])
    let status = try descriptor.status()
    guard status.user == user, status.permissions & 0o077 == 0 else { throw .notPermitted }
    mount = try MountedFileSystem.identifier(ofMountOf: descriptor)
    self.descriptor = descriptor
  }

  /// Whether a directory that was opened without access is on a FUSE file system, which is asked nothing. A user may
  /// have mounted one there that never answers.
  static func isFUSE(_ directory: borrowing Descriptor) throws(Errno) -> Bool {
    try MountedFileSystem.type(of: directory)?.hasPrefix("fuse") ?? false
  }

  /// Creates the directory with mode 0700 if necessary, and opens it.
  package init(creating path: String) throws(Errno) {
    do throws(Errno) { try Process.makeDirectory(path, mode: 0o700) } catch { if error != .fileExists { throw error } }
    try self.init(opening: path, of: Process.identity.user)
  }

  /// Opens a name in the directory without access.
  ///
  /// - Throws: `EPERM` for something on a FUSE file system; `ENOENT`.
  package func open(_ name: String) throws(Errno) -> Descriptor {
    try Self.open(PathName(name), in: descriptor, on: mount)
  }

  /// Opens a name in a directory without access. Its owner, whom others ask, may have put anything there: a symbolic
  /// link to another's socket is not followed, and a file system that is mounted there is not asked for anything.
  ///
  /// - Parameter mount: the one that the directory is on.
  /// - Throws: `EPERM` for something on a FUSE file system; `ENOENT`.
  static func open(
    _ name: PathName, in directory: borrowing Descriptor, on mount: String?
  ) throws(Errno) -> Descriptor {
    let file = try directory.open(name, [.path, .noFollow])
    // Something may have been bound there from elsewhere.
    if try MountedFileSystem.identifier(ofMountOf: file) != mount, try isFUSE(file) { throw .notPermitted }
    return file
  }

  /// Opens a regular file in the directory for reading.
  ///
  /// - Throws: `EINVAL` for what is none, `EPERM`, `ENOENT`.
  package func openFile(_ name: String) throws(Errno) -> Descriptor {
    let found = try open(name)
    guard try found.status().type == .regular else { throw .invalidArgument }
    return try Descriptor.open(PathName(descriptor: found), [.readOnly, .nonBlocking])
  }

  /// A path of a name in the directory, which is valid while the directory is open and short enough for a socket
  /// address.
  package func path(of name: String) -> String { "\(PathName(descriptor: descriptor))/\(name)" }

  /// Up to `limit` names in the directory.
  package func names(limit: Int) -> [String] {
    let names = try? descriptor.names(limit: limit)
    return (names ?? []).map(\.description)
  }

  /// Connects to a socket in the directory. A process that was stopped accepts no connection; when its queue is full,
  /// the next one waits.
  ///
  /// - Parameter patience: the seconds after which that, or sending, fails with `EAGAIN`.
  package func connect(to name: String, patience: Int) throws(Errno) -> LocalSocket {
    let file = try open(name)
    let socket = try LocalSocket()
    try socket.setTimeout(.sending, seconds: patience)
    try socket.connect(to: PathName(descriptor: file).description)
    return socket
  }

  /// Whether a process listens on a socket in the directory. Does not wait for a process that accepts no connections.
  ///
  /// - Throws: `ENOENT` if there is no socket.
  package func isServed(_ name: String) throws(Errno) -> Bool {
    let file = try open(name)
    let socket = try LocalSocket(isBlocking: false)
    do throws(Errno) {
      try socket.connect(to: PathName(descriptor: file).description)
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
