import ArgumentParser
import ProtectfsClient

extension CompletionKind {
  /// Shells offer what the user has mounted.
  static let mountPoint = CompletionKind.custom { _, _, beginning in
    ((try? UserMounts().mounts) ?? []).map(\.mountPoint).filter { $0.hasPrefix(beginning) }
  }
}

/// Which mounts a command is for: one, which need not be named if the user has no other, or all.
struct MountChoice: ParsableArguments {
  @Argument(
    help: .init(
      "Where the store is mounted, or its backing directory; may be left out where one store is mounted.",
      valueName: "mount-point"),
    completion: .mountPoint)
  var mountPoint: String?

  @Flag(help: "All mounts of this user; for root, all mounts.")
  var all = false

  @Flag(help: "Report in JSON what 'protectfs status --json' does then.")
  var json = false

  func validate() throws {
    if all && mountPoint != nil { throw ValidationError("Give a mount point or --all, not both.") }
  }

  /// Calls `body`, and then reports the state of the mounts if that was asked for, whether it failed or not.
  func reporting(_ body: () throws -> Void) throws {
    let outcome = Result { try body() }
    if json {
      do {
        let paths = all ? [] : [try mountPoint ?? UserMounts().only(for: "protectfs status").mountPoint]
        try StatusCommand.parse(["--json", "--"] + paths).run()
      } catch {
        // The first cause says more.
        if case .success = outcome { throw error }
      }
    }
    try outcome.get()
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
