import MountDaemon
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

/// Pages of a mount whose daemon was killed. The process beside the daemon drops them; where that was killed too, they are
/// readable for who has files open.
enum RemainingPages {
  /// What a command fails with where pages may remain; `nil` where none do.
  static func failure(_ mount: MountedFileSystem) -> CommandFailure? {
    let start = ContinuousClock.now
    let users = MountHolders.users(of: mount)
    guard !users.isEmpty else { return nil }
    // They are being dropped right now, perhaps.
    while !PageRemovalMark.isSet(for: mount) {
      if ContinuousClock.now > start + .seconds(3) { return Self.failure(mount, users) }
      Thread.sleep(microseconds: 50_000)
    }
    return nil
  }

  private static func failure(_ mount: MountedFileSystem, _ users: [String]) -> CommandFailure {
    CommandFailure(
      .pagesRemain,
      "the daemon of \(mount.mountPoint) was killed, and the kernel still has pages of its files, which processes that have "
        + "them open can read: \(MountHolders.words(for: users)). End these")
  }
}
