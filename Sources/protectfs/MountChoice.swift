import ArgumentParser
import ProtectfsClient

/// Which mounts a command is for: one, which need not be named if the user has no other, or all.
struct MountChoice: ParsableArguments {
  @Argument(
    help: .init(
      "Where the store is mounted, or its backing directory; may be left out where one store is mounted.",
      valueName: "mount-point"),
    completion: .directory)
  var mountPoint: String?

  @Flag(help: "All mounts of this user; for root, all mounts.")
  var all = false

  func validate() throws {
    if all && mountPoint != nil { throw ValidationError("Give a mount point or --all, not both.") }
  }

  /// Calls `body` with the daemon of the one mount.
  ///
  /// - Parameters:
  ///   - name: the command's.
  ///   - persists: whether it is called again when the daemon ends the connection.
  func withOne(
    for name: String, persists: Bool = false, _ body: (inout DaemonConnection) throws -> Void
  ) throws {
    if let mountPoint { return try DaemonPath.withEach(of: mountPoint, persists: persists, body) }
    try DaemonPath.with(UserMounts().only(for: "protectfs \(name)", takesAll: true), persists: persists, body)
  }
}
