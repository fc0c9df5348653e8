import Foundation
import ProtectfsClient

/// Identifies a mount, also after it was mounted again. Nothing here sends a request to a daemon.
struct FollowedMount: Sendable {
  /// A path on the mount; `nil` for the device's mount.
  private let path: String?

  /// The mount of a path, at the time of each query.
  init(path: String) {
    self.path = Self.canonical(path)
  }

  /// The canonical path, which a mount point has even if nothing is mounted on it.
  private static func canonical(_ path: String) -> String {
    URL(fileURLWithPath: path).standardizedFileURL.resolvingSymlinksInPath().path(percentEncoded: false)
  }

  /// The device's mount: the one named by `PROTECTFS_MOUNT_POINT` in the environment, otherwise the first that this
  /// user has mounted, otherwise the first of all.
  init() {
    path = ProcessInfo.processInfo.environment["PROTECTFS_MOUNT_POINT"].map(Self.canonical)
  }

  /// The mount as it is now; `nil` if nothing is mounted.
  var current: MountedFileSystem? {
    let mounts = MountedFileSystem.all()
    guard let path else { return Self.ofDevice(mounts) }
    return mounts.filter { Self.contains($0.mountPoint, path) }.max {
      $0.mountPoint.utf8.count < $1.mountPoint.utf8.count
    }
  }

  private static func contains(_ directory: String, _ path: String) -> Bool {
    // Compared by bytes, since Swift may consider strings with different bytes equal.
    directory == "/" || path.utf8.elementsEqual(directory.utf8) || path.utf8.starts(with: (directory + "/").utf8)
  }

  private static func ofDevice(_ mounts: [MountedFileSystem]) -> MountedFileSystem? {
    let user = UInt32(getuid())
    return mounts.first { $0.owner == user } ?? mounts.first
  }
}
