import ProtectfsIO
import SystemPackage

extension ControlSocket {
  /// A daemon, by the names of its socket.
  package struct Daemon: Sendable, Hashable {
    /// The name that outlives the mount point.
    package let socket: ControlSocket
    package let owner: UInt32
    /// All names of the socket.
    fileprivate let names: Set<String>

    /// Whether a mount leads to it: its file system is mounted where it was first.
    package func serves(_ mount: MountedFileSystem) -> Bool {
      owner == mount.owner
        && ([mount] + mount.sameFileSystem()).contains {
          names.contains(ControlSocket.name(forMountPoint: $0.mountPoint))
        }
    }
  }

  /// The daemons of a user that run, also those whose mounts nobody finds by a path, or only another mount namespace
  /// has: a hundred in each directory, since others may listen there too. Waits for none of them.
  package static func daemons(of owner: UInt32) -> [Daemon] {
    directories(of: owner).flatMap { path -> [Daemon] in
      guard let directory = try? SocketDirectory(opening: path, of: owner) else { return [] }
      let all = directory.names(limit: longestListing).filter { $0.hasSuffix(".sock") }
      func inode(_ name: String) -> UInt64? { try? directory.open(name).status().inode }
      let sockets = Dictionary(grouping: all, by: inode)
      var daemons: [Daemon] = []
      // A killed daemon leaves its sockets behind.
      for name in all where daemons.count < 100 && name.hasPrefix(backingPrefix) {
        guard (try? directory.isServed(name)) == true else { continue }
        let names = Set(sockets[inode(name)] ?? [])
        daemons.append(Daemon(socket: ControlSocket(directory: path, name: name), owner: owner, names: names))
      }
      return daemons
    }
  }

  /// The users who may have daemons: root, and those who have a directory where sockets are.
  package static func possibleOwners() -> [UInt32] {
    [0] + owners(in: "/run/user") + owners(in: "/run/protectfs-user") + owners(in: "/tmp", after: "protectfs-")
  }

  private static func owners(in path: String, after prefix: String = "") -> [UInt32] {
    guard let directory = try? Descriptor.open(PathName(path), [.path, .directory]),
      let mount = try? MountedFileSystem.identifier(ofMountOf: directory),
      // Everybody may fill /tmp, which is to hide nobody's.
      let names = try? PathName(path).names(limit: 1_000_000)
    else { return [] }
    return names.compactMap { name -> UInt32? in
      let text = name.description
      // Nobody there passes for another.
      guard text.hasPrefix(prefix), let owner = UInt32(text.dropFirst(prefix.count)),
        let status = try? SocketDirectory.open(name, in: directory, on: mount).status(),
        status.type == .directory, status.user == owner
      else { return nil }
      return owner
    }
  }

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

  /// Whether the path of a mount's store leads to another directory now than the one that its daemon has, or to none:
  /// the store was moved since. `false` where that cannot be seen.
  package static func hasMovedBackingDirectory(of mount: MountedFileSystem) -> Bool {
    guard [0, mount.owner].contains(Process.identity.user) else { return false }
    do throws(Errno) {
      let status = try BoundedCall.result(about: mount.backing) { () throws(Errno) in
        try Descriptor.open(PathName(mount.backing), [.path]).status()
      }
      let prefix = prefix(forBackingDevice: status.device, inode: status.inode)
      return daemons(of: mount.owner).contains { daemon in
        daemon.serves(mount) && !daemon.names.contains { $0.hasPrefix(prefix) }
      }
    } catch {
      return [.noSuchFileOrDirectory, .notDirectory].contains(error)
    }
  }

  private static let longestListing = 10_000

  private static func names(in path: String, of owner: UInt32) -> [String] {
    (try? SocketDirectory(opening: path, of: owner).names(limit: longestListing)) ?? []
  }
}
