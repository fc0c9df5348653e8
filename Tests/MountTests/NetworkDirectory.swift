import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

/// A directory on one host of a network file system, which the program `NetworkFileSystem` simulates: two of these for
/// one directory are two hosts. Unmounted with ``end()``.
final class NetworkDirectory {
  let path: PathName
  private let server: Program

  /// Shows `directory` at `path`, which is created.
  init(_ directory: PathName, at path: PathName) throws {
    try path.makeDirectory()
    self.path = path
    server = try Program(
      [Command.beside("NetworkFileSystem"), directory.description, path.description],
      output: PathName(path.description + ".log"))
    let deadline = ContinuousClock.now + patience
    // The two have the same inode number once it is mounted, and not before.
    while try path.status().inode != directory.status().inode {
      if server.poll() != nil { throw MountFailure(ending: server.wait(), output: server.output) }
      try #require(ContinuousClock.now < deadline, "\(path) is not mounted: \(server.output)")
      usleep(2000)
    }
  }

  /// Makes all changes fail with EROFS, or ends that.
  func setReadOnly(_ isReadOnly: Bool) throws {
    server.send(isReadOnly ? SIGUSR1 : SIGUSR2)
    let probe = path.appending("probe")
    let deadline = ContinuousClock.now + patience
    while (failure { () throws(Errno) in try probe.makeDirectory() } != nil) != isReadOnly {
      try? probe.removeDirectory()
      try #require(ContinuousClock.now < deadline, "the server does not take the signal")
      usleep(2000)
    }
    try? probe.removeDirectory()
  }

  /// What was done with files, in order: `fsync`, `fdatasync`, or the name of an attribute that was set, and the path.
  var log: [Substring] { server.output.split(separator: "\n") }

  /// Gives the locks of this host away. `isFenced`: what had one refuses this host from then on.
  func loseLocks(isFenced: Bool = false) { server.send(isFenced ? SIGVTALRM : SIGPWR) }

  /// Has the file system answer nothing, or end that.
  func setSilent(_ isSilent: Bool) { server.send(isSilent ? SIGSTOP : SIGCONT) }

  /// Has the kernel answer for it that nobody serves it.
  func kill() {
    server.send(SIGKILL)
    _ = server.wait()
  }

  func end() {
    setSilent(false)
    try? path.unmount(isLazy: true)
    server.send(SIGTERM)
    _ = server.wait(seconds: 10)
  }
}

extension Volume {
  /// Creates a store in a directory of several hosts, and calls `body` with the volume, its host, and the paths on the
  /// other hosts.
  static func onHosts(
    others: Int, initOptions: [String]? = nil, environment: (PathName) -> [String: String] = { _ in [:] },
    _ body: (Volume, NetworkDirectory, [PathName]) throws -> Void
  ) throws {
    var hosts: [NetworkDirectory] = []
    defer { for host in hosts { host.end() } }
    let attach = { (directory: PathName) in
      let disk = directory.appending("disk")
      try disk.makeDirectory(mode: 0o700)
      for name in ["backing"] + (0..<others).map({ "host.\($0)" }) {
        hosts.append(try NetworkDirectory(disk, at: directory.appending(name)))
      }
    }
    try Volume.store(initOptions: initOptions, environment: environment, prepare: attach) { volume in
      // Before the volume's directory goes.
      defer { for host in hosts { host.end() } }
      try body(volume, hosts[0], hosts.dropFirst().map(\.path))
      if volume.isMounted { try volume.unmount() }
    }
  }
}
