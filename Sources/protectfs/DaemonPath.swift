import MountDaemon
import ProtectfsClient

/// The daemon that a path of the user's means: by a mount, or by a backing directory or a former mount point, whose
/// daemon lives while somebody holds its file system.
enum DaemonPath {
  /// Calls `body` with a connection to each daemon of a path; there are several where a backing directory is mounted
  /// more than once. A daemon that was stopped is reported while it is waited for.
  ///
  /// - Throws: `notMounted` where there is none, and what `body` throws.
  static func withEach(of path: String, _ body: (inout DaemonConnection) throws -> Void) throws {
    if let mount = try MountedFileSystem.containing(path) { return try with(mount, body) }
    var hasFound = false
    for (socket, owner) in try ControlSocket.all(of: CanonicalPath.of(path)) {
      // A killed daemon leaves its sockets behind.
      guard let daemon = try? DaemonConnection(at: socket, owner: owner) else { continue }
      hasFound = true
      try report(daemon, body)
    }
    guard hasFound else {
      throw ControlError(
        .notMounted,
        "\(path) is not on a protectfs mount, nor the backing directory of one; mount it with 'protectfs mount'")
    }
  }

  /// Calls `body` with a connection to the daemon of a mount.
  static func with(_ mount: MountedFileSystem, _ body: (inout DaemonConnection) throws -> Void) throws {
    try report(try connect(to: mount), body)
  }

  /// Calls `body` with a connection to the daemon of a user at a socket.
  static func with(
    _ socket: ControlSocket, of owner: UInt32, _ body: (inout DaemonConnection) throws -> Void
  ) throws {
    try report(try DaemonConnection(at: socket, owner: owner), body)
  }

  /// - Throws: `pagesRemain` for a mount whose daemon was killed, where they do.
  private static func connect(to mount: MountedFileSystem) throws -> DaemonConnection {
    do throws(ControlError) {
      return try DaemonConnection(to: mount)
    } catch {
      if error.code == .noAnswer, mount.isDead { try requireNoPages(of: mount) }
      throw error
    }
  }

  /// - Throws: `pagesRemain` for a mount whose daemon was killed, where processes can read pages of it.
  static func requireNoPages(of mount: MountedFileSystem) throws(CommandFailure) {
    let holders = MountHolders(ofPagesOf: mount)
    guard !holders.isEmpty else { return }
    throw CommandFailure(
      .pagesRemain,
      "the daemon of \(mount.mountPoint) was killed, and the kernel still has pages of its files, which processes that "
        + "have them open can read: \(holders.words). End these")
  }

  private static func report(
    _ daemon: consuming DaemonConnection, _ body: (inout DaemonConnection) throws -> Void
  ) throws {
    let notice = WaitNotice(for: daemon.processID)
    defer { notice.end() }
    try body(&daemon)
  }
}
