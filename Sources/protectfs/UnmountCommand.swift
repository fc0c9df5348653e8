import ArgumentParser
import DataProtectionCore
import Glibc
import LinuxIO
import MountDaemon

/// `protectfs unmount`
struct UnmountCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "unmount",
    abstract: "Unmount a store.",
    discussion: """
      Everything is written back and every key wiped; returns when the daemon has ended. A mount whose daemon was \
      killed is cleaned up.

      Example:
        protectfs unmount ~/private
      """,
    aliases: ["umount"])

  @Argument(help: ArgumentHelp("Where the store is mounted.", valueName: "mount-point"), completion: .directory)
  var mountPoint: String

  @Flag(name: [.customShort("z"), .long], help: "Detach it now, even if it is in use.")
  var lazy = false

  func run() throws {
    let path = try CanonicalPath.of(mountPoint)
    guard let mount = try MountedFileSystem.containing(path), mount.mountPoint == path else {
      throw CommandFailure(.notMounted, "\(mountPoint) is not the mount point of a protectfs mount")
    }
    guard mount.owner == Process.identity.user || Process.identity.user == 0 else {
      throw CommandFailure(
        .notPermitted, "\(path) was mounted by user \(mount.owner); unmount as that user or as root")
    }
    let isDead = MountPoint.isDead(path)
    let process = isDead ? nil : Self.daemonProcess(of: mount)
    guard Unmount.run(path, isLazy: lazy || isDead) else {
      throw CommandFailure(.busy, "\(path) is in use; close what uses it, or detach it with --lazy")
    }
    if let process, !lazy { Self.waitForEnd(of: process) }
  }

  private static func daemonProcess(of mount: MountedFileSystem) -> Int32? {
    guard var daemon = try? DaemonConnection(to: mount) else { return nil }
    return try? daemon.status().processID
  }

  /// Waits up to ten seconds, so that the store can be mounted again or copied at once.
  private static func waitForEnd(of process: Int32) {
    for _ in 0..<1000 {
      guard kill(process, 0) == 0 || errno == EPERM else { return }
      usleep(10_000)
    }
  }
}
