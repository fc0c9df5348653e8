import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

/// A directory on one host of a network file system, which the program `NetworkFileSystem` stands in for: two of these that
/// show one directory are two hosts. Unmounted with ``end()``.
final class NetworkDirectory {
  let path: PathName
  private let server: Program

  /// Shows `directory` at `path`, which is made.
  init(_ directory: PathName, at path: PathName) throws {
    try path.makeDirectory()
    self.path = path
    server = try Program(
      [Command.beside("NetworkFileSystem"), directory.description, path.description],
      output: PathName(path.description + ".log"))
    let deadline = ContinuousClock.now + .seconds(20)
    // The two have one inode number when it is mounted, and not before.
    while try path.status().inode != directory.status().inode {
      if server.poll() != nil { throw MountFailure(ending: server.wait(), output: server.output) }
      try #require(ContinuousClock.now < deadline, "\(path) is not mounted: \(server.output)")
      usleep(2000)
    }
  }

  /// Has all that would change something answer EROFS, or no longer.
  func setReadOnly(_ isReadOnly: Bool) throws {
    server.send(isReadOnly ? SIGUSR1 : SIGUSR2)
    let probe = path.appending("probe")
    let deadline = ContinuousClock.now + .seconds(20)
    while (failure { () throws(Errno) in try probe.makeDirectory() } != nil) != isReadOnly {
      try? probe.removeDirectory()
      try #require(ContinuousClock.now < deadline, "the server does not take the signal")
      usleep(2000)
    }
    try? probe.removeDirectory()
  }

  func end() {
    try? path.unmount(isLazy: true)
    server.send(SIGTERM)
    _ = server.wait(seconds: 10)
  }
}

extension Volume {
  /// Makes a store in a directory that several hosts have, and calls `body` with the host of the volume and where the others
  /// have it.
  static func onHosts(others: Int, _ body: (Volume, NetworkDirectory, [PathName]) throws -> Void) throws {
    var hosts: [NetworkDirectory] = []
    defer { for host in hosts { host.end() } }
    let attach = { (directory: PathName) in
      let disk = directory.appending("disk")
      try disk.makeDirectory(mode: 0o700)
      for name in ["backing"] + (0..<others).map({ "host.\($0)" }) {
        hosts.append(try NetworkDirectory(disk, at: directory.appending(name)))
      }
    }
    try Volume.store(prepare: attach) { volume in
      // Before the volume's directory goes.
      defer { for host in hosts { host.end() } }
      try body(volume, hosts[0], hosts.dropFirst().map(\.path))
      if volume.isMounted { try volume.unmount() }
    }
  }
}
