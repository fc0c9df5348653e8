import ProtectfsIO
import SystemPackage

extension ControlSocket {
  /// The sockets of the daemons of a backing directory, and of one that was mounted at the path, with their users.
  package static func all(of path: String) throws(Errno) -> [(ControlSocket, owner: UInt32)] {
    let status = try Descriptor.open(PathName(path), [.path]).status()
    let prefix = Self.prefix(forBackingDevice: status.device, inode: status.inode)
    let formerName = Self.name(forMountPoint: path)
    var owners = [Process.identity.user]
    // Root speaks to the daemons of others too, who mount what is theirs.
    if owners == [0], status.user != 0 { owners.append(status.user) }
    return owners.flatMap { owner in
      directories(of: owner).flatMap { directory in
        names(in: directory, of: owner).filter { $0.hasPrefix(prefix) || $0 == formerName }
          .map { (ControlSocket(directory: directory, name: $0), owner) }
      }
    }
  }

  private static func names(in path: String, of owner: UInt32) -> [String] {
    (try? SocketDirectory(opening: path, of: owner).names(limit: 10_000)) ?? []
  }
}
