import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The daemon that a path of the user's means: by a mount, or by a backing directory or a former mount point, whose daemon
/// lives while somebody holds its file system.
enum DaemonPath {
  /// Calls `body` with a connection to each daemon of a path; there are several where a backing directory is mounted more
  /// than once. A daemon that was stopped is reported while it is waited for.
  ///
  /// - Throws: `notMounted` where there is none, and what `body` throws.
  static func withEach(of path: String, _ body: (inout DaemonConnection) throws -> Void) throws {
    if let mount = try MountedFileSystem.containing(path) {
      return try report(try connect(to: mount), body)
    }
    var hasFound = false
    for (socket, owner) in try sockets(of: path) {
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

  /// - Throws: `pagesRemain` for a mount whose daemon was killed, where they do.
  private static func connect(to mount: MountedFileSystem) throws -> DaemonConnection {
    do throws(ControlError) {
      return try DaemonConnection(to: mount)
    } catch {
      if error.code == .noAnswer, MountPoint.isDead(mount.mountPoint), let failure = RemainingPages.failure(mount) {
        throw failure
      }
      throw error
    }
  }

  private static func report(
    _ daemon: consuming DaemonConnection, _ body: (inout DaemonConnection) throws -> Void
  ) throws {
    let notice = WaitNotice(for: daemon.processID)
    defer { notice.end() }
    try body(&daemon)
  }

  /// The sockets of the daemons of a backing directory, and of one that was mounted at the path, with their users.
  private static func sockets(of path: String) throws -> [(ControlSocket, owner: UInt32)] {
    let canonical = try CanonicalPath.of(path)
    let status = try Descriptor.open(PathName(canonical), [.path]).status()
    let prefix = ControlSocket.prefix(forBackingDevice: status.device, inode: status.inode)
    let formerName = ControlSocket.name(forMountPoint: canonical)
    var owners = [Process.identity.user]
    // Root speaks to the daemons of others too, who mount what is theirs.
    if owners == [0], status.user != 0 { owners.append(status.user) }
    return owners.flatMap { owner in
      ControlSocket.directories(of: owner).flatMap { directory in
        names(in: directory, of: owner).filter { $0.hasPrefix(prefix) || $0 == formerName }
          .map { (ControlSocket(directory: directory, name: $0), owner) }
      }
    }
  }

  private static func names(in path: String, of owner: UInt32) -> [String] {
    guard let directory = try? SocketDirectory(opening: path, of: owner),
      let names = try? DirectoryNames(
        Descriptor.open(PathName("/proc/self/fd/\(directory.rawValue)"), [.readOnly, .directory])
      ).all(limit: 10_000)
    else { return [] }
    return names.map(\.description)
  }
}
