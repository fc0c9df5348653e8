import ProtectfsClient
import ProtectfsIO

/// Waits until the files that a command has given new keys are encrypted under them, and tells how far that has come.
final class RekeyWait {
  private let progress = ProgressLine()
  private let isWanted: () -> Bool

  /// - Parameter isWanted: whether to go on waiting; asked a few times a second.
  init(while isWanted: @escaping () -> Bool = { true }) {
    self.isWanted = isWanted
  }

  /// Waits for the mounts on which paths are. What is not there was reported as such.
  ///
  /// - Throws: `partial` when files wait for an unlock or have failed, with what to do; what the daemon answers with.
  func finish(_ paths: [String]) throws {
    var seen: Set<String> = []
    for path in paths {
      guard let mount = try? MountedFileSystem.containing(path), seen.insert(mount.mountPoint).inserted else {
        continue
      }
      try finish(mount)
    }
  }

  private func finish(_ mount: MountedFileSystem) throws {
    defer { progress.clear() }
    var daemon = try DaemonConnection(to: mount)
    var interval: UInt32 = 2_000
    let start = ContinuousClock.now
    var most = 0
    while isWanted() {
      let status = try daemon.status()
      let stuck = status.failedRekeys + status.lockedRekeys
      if status.pendingRekeys <= stuck {
        if stuck > 0 { throw Self.failure(status, mount) }
        return
      }
      let pending = status.pendingRekeys
      most = max(most, pending)
      let rest = TreeProgress.timeLeft(after: most - pending, of: most, in: .now - start)
      progress.show(
        "\(pending.files) to be encrypted anew" + (rest.map { ", \(($0 / .seconds(1)).seconds) left" } ?? ""))
      Thread.sleep(microseconds: interval)
      interval = min(interval * 2, 100_000)
    }
    throw CommandFailure(.interrupted, "the rest is encrypted anew in the background")
  }

  private static func failure(_ status: DaemonStatus, _ mount: MountedFileSystem) -> CommandFailure {
    if status.failedRekeys > 0 {
      let files = "\(status.failedRekeys.files) could not be encrypted anew yet, and stay as they are"
      return CommandFailure(
        .partial,
        mount.isFull
          ? "the disk is full: \(files); make room, and it is tried again"
          : "\(files); the mount's log says why, and it is tried again")
    }
    return CommandFailure(
      .partial, "\(status.lockedRekeys.files) are encrypted anew after the next unlock: the mount was locked")
  }
}
