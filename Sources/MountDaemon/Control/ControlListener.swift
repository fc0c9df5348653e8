import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The listening socket of one mount, in a directory of mode 0700 that belongs to the mount's owner.
struct ControlListener: ~Copyable, Sendable {
  /// Where clients find it.
  let location: ControlSocket
  let socket: LocalSocket
  private let directory: SocketDirectory
  private let inode: UInt64
  /// Its second name, by the backing directory, which outlives the mount point.
  private let backingName: String?

  /// Listens for the mount of a canonical mount point, in the first of the directories that can be had.
  ///
  /// A socket that a dead daemon left behind is replaced; the directory is locked meanwhile, so that of two daemons
  /// that start at once only one wins.
  /// - Throws: `failed` where another daemon answers, or where no directory can be made.
  init(
    mountPoint: String, backing: Status? = nil,
    directories: [String] = ControlSocket.directories(of: Process.identity.user)
  ) throws(ControlError) {
    let name = ControlSocket.name(forMountPoint: mountPoint)
    var reasons: [String] = []
    for path in directories {
      do throws(Errno) {
        let directory = try SocketDirectory(creating: path)
        let location = ControlSocket(directory: path, name: name)
        try self.init(location, backing: backing, in: directory)
        return
      } catch .addressInUse {
        throw ControlError(.failed, "a daemon for \(mountPoint) answers already, at \(path)/\(name)")
      } catch .notPermitted {
        reasons.append("\(path) is not a directory of this user's, closed to others")
      } catch {
        reasons.append("\(path): \(error)")
      }
    }
    throw ControlError(.failed, "no control socket can be made: \(reasons.joined(separator: "; "))")
  }

  /// Listens at a place.
  ///
  /// - Throws: `EADDRINUSE` where somebody answers there.
  private init(
    _ location: ControlSocket, backing: Status?, in directory: consuming SocketDirectory
  ) throws(Errno) {
    let socket = try LocalSocket()
    let backingName = backing.map {
      "\(ControlSocket.prefix(forBackingDevice: $0.device, inode: $0.inode))\(Process.number).sock"
    }
    inode = try Self.listen(on: socket, name: location.name, backingName, in: directory)
    self.backingName = backingName
    self.location = location
    self.socket = socket
    self.directory = directory
  }

  /// Gives a socket its names, and returns the inode of the file that stands for it.
  private static func listen(
    on socket: borrowing LocalSocket, name: String, _ secondName: String?, in directory: borrowing SocketDirectory
  ) throws(Errno) -> UInt64 {
    try directory.descriptor.lock()
    defer { directory.descriptor.unlock() }
    try removeStaleSocket(name, in: directory)
    removeStaleSockets(in: directory)
    // The file takes the mode of the socket it is made from: nobody else can connect at any moment.
    try socket.descriptor.setMode(0o600)
    try socket.bind(to: directory.path(of: name))
    // As many may come at once as are served.
    try socket.listen(backlog: ControlServer.Limits().connections)
    let name = PathName(name)
    do throws(Errno) {
      if let secondName { try directory.descriptor.link(name, to: PathName(secondName), in: directory.descriptor) }
    } catch {
      try? directory.descriptor.unlink(name)
      throw error
    }
    return try directory.descriptor.status(of: name).inode
  }

  /// Removes the socket's names, unless another daemon has put its own in their place.
  borrowing func removeFile() {
    guard (try? directory.descriptor.lock()) != nil else { return }
    defer { directory.descriptor.unlock() }
    for name in [location.name, backingName].compactMap({ $0.map { PathName($0) } })
    where (try? directory.descriptor.status(of: name).inode) == inode {
      try? directory.descriptor.unlink(name)
    }
  }

  /// Every daemon that starts waits for the directory's lock meanwhile, so this waits for no daemon: one that is
  /// stopped or hangs accepts nobody.
  private static func removeStaleSocket(_ name: String, in directory: borrowing SocketDirectory) throws(Errno) {
    do throws(Errno) {
      if try directory.isServed(name) { throw .addressInUse }
    } catch .noSuchFileOrDirectory {
      return
    }
    try directory.descriptor.unlink(PathName(name))
  }

  /// Removes what other daemons left behind when they were killed. What cannot be removed does no harm.
  private static func removeStaleSockets(in directory: borrowing SocketDirectory) {
    let names = directory.names(limit: 1000)
    for name in names where name.hasSuffix(".sock") { try? removeStaleSocket(name, in: directory) }
    PageRemovalMark.removeStale(names, in: directory)
  }
}
