import Foundation
import ProtectfsClient

/// Which mount is meant, now and after it was mounted anew. Nothing that is done here asks a daemon.
struct FollowedMount: Sendable {
  /// A path on it; `nil` for the mount that stands for the device.
  private let path: String?

  /// The mount of a path, wherever that is when it is asked for.
  init(path: String) {
    self.path = Self.canonical(path)
  }

  /// A mount point that nothing is mounted on is there all the same, and so has the same canonical path.
  private static func canonical(_ path: String) -> String {
    URL(fileURLWithPath: path).standardizedFileURL.resolvingSymlinksInPath().path(percentEncoded: false)
  }

  /// The mount that stands for the device: the one that `PROTECTFS_MOUNT_POINT` in the environment names, else the first
  /// that this user has mounted, else the first there is.
  init() {
    path = ProcessInfo.processInfo.environment["PROTECTFS_MOUNT_POINT"].map(Self.canonical)
  }

  /// The mount as it is now; `nil` where nothing is mounted.
  var current: MountedFileSystem? {
    let mounts = MountedFileSystem.all()
    guard let path else { return Self.ofDevice(mounts) }
    return mounts.filter { Self.contains($0.mountPoint, path) }.max {
      $0.mountPoint.utf8.count < $1.mountPoint.utf8.count
    }
  }

  private static func contains(_ directory: String, _ path: String) -> Bool {
    // By bytes: to Swift, texts that differ in theirs may be equal.
    directory == "/" || path.utf8.elementsEqual(directory.utf8) || path.utf8.starts(with: (directory + "/").utf8)
  }

  private static func ofDevice(_ mounts: [MountedFileSystem]) -> MountedFileSystem? {
    let user = UInt32(getuid())
    return mounts.first { $0.owner == user } ?? mounts.first
  }
}
