import MountDaemon
import ProtectfsClient
import ProtectfsIO

/// The daemon that a path of the user's means: by a mount, or by a backing directory or a former mount point, whose
/// daemon lives while somebody holds its file system.
enum DaemonPath {
  /// Calls `body` with a connection to each daemon of a path; there are several where a backing directory is mounted
  /// more than once. A daemon that was stopped is reported while it is waited for.
  ///
  /// - Parameter persists: whether `body` is called again with another connection when the daemon ends one, as it does
  ///   when it has too many: a lock is not to be missed.
  /// - Throws: `notMounted` where there is none, and what `body` throws.
  static func withEach(
    of path: String, persists: Bool = false, _ body: (inout DaemonConnection) throws -> Void
  ) throws {
    let mount = try MountedFileSystem.containing(path)
    let canonical = try CanonicalPath.of(path)
    // A backing directory may lie on the mount of another store.
    if let mount, !mount.hasBacking(at: canonical) { return try with(mount, persists: persists, body) }
    var hasFound = false
    for (socket, owner) in try ControlSocket.all(of: canonical) {
      // A killed daemon leaves its sockets behind.
      guard let daemon = try? DaemonConnection(at: socket, owner: owner) else { continue }
      hasFound = true
      let again = { () throws in try DaemonConnection(at: socket, owner: owner) }
      try report(daemon, again: persists ? again : nil, body)
    }
    guard hasFound else {
      throw ControlError(
        .notMounted,
        "\(path) is not on a protectfs mount, nor the backing directory of one; \(LoginSettings.wayToMount(canonical))")
    }
  }

  /// Calls `body` with a connection to the daemon of a mount.
  static func with(
    _ mount: MountedFileSystem, persists: Bool = false, _ body: (inout DaemonConnection) throws -> Void
  ) throws {
    let again = { () throws in try connect(to: mount) }
    try report(try again(), again: persists ? again : nil, body)
  }

  /// Calls `body` with a connection to the daemon of a user at a socket.
  static func with(
    _ socket: ControlSocket, of owner: UInt32, persists: Bool = false,
    _ body: (inout DaemonConnection) throws -> Void
  ) throws {
    let again = { () throws in try DaemonConnection(at: socket, owner: owner) }
    try report(try again(), again: persists ? again : nil, body)
  }

  /// - Throws: `pagesRemain` for a mount whose daemon was killed, where they do.
  private static func connect(to mount: MountedFileSystem) throws -> DaemonConnection {
    do throws(ControlError) {
      return try DaemonConnection(to: mount)
    } catch {
      // A file system of another user may never say.
      if error.code == .noAnswer, mount.owner == Process.identity.user, mount.isDead { try requireNoPages(of: mount) }
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
    _ daemon: consuming DaemonConnection, again: (() throws -> DaemonConnection)?,
    _ body: (inout DaemonConnection) throws -> Void
  ) throws {
    let notice = WaitNotice(for: daemon.processID)
    defer { notice.end() }
    for _ in 0..<mostAttempts {
      do {
        return try body(&daemon)
      } catch let error as ControlError where error.code == .noAnswer {
        guard let again else { throw error }
        Thread.sleep(microseconds: 100_000)
        // A daemon that has ended is not there.
        daemon = try again()
      }
    }
    try body(&daemon)
  }

  private static let mostAttempts = 100
}
