import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// Which mounts a listener means, also after they were mounted again. Nothing here sends a request to a daemon.
package struct FollowedMount: Sendable {
  /// A path on the mount; `nil` for all mounts.
  private let path: String?

  /// The mount of a path, at the time of each query.
  package init(path: String) {
    self.path = Self.canonical(path)
  }

  /// All mounts of this user's. Those of others are asked nothing: nobody named them, and they may never answer.
  package static let all = FollowedMount()

  private init() { path = nil }

  /// The canonical path, which a mount point has even if nothing is mounted on it; the path as it is where a file
  /// system does not answer.
  private static func canonical(_ path: String) -> String {
    let resolved = try? BoundedCall.result(about: path) { () throws(Errno) in
      URL(fileURLWithPath: path).standardizedFileURL.resolvingSymlinksInPath().path(percentEncoded: false)
    }
    return resolved ?? path
  }

  /// Its file systems as they are now, each by one of its mounts; none if nothing is mounted.
  package func current(in mounts: [MountedFileSystem]) -> [MountedFileSystem] {
    guard let path else {
      let user = ProtectfsIO.Process.identity.user
      var seen: Set<String> = []
      return mounts.filter { $0.owner == user && seen.insert($0.device).inserted }
    }
    // The last of those that are mounted on one another is the one that is seen.
    let containing = mounts.filter { Self.contains($0.mountPoint, path) }
    guard let longest = containing.map(\.mountPoint.utf8.count).max() else { return [] }
    return containing.last { $0.mountPoint.utf8.count == longest }.map { [$0] } ?? []
  }

  private static func contains(_ directory: String, _ path: String) -> Bool {
    // Compared by bytes, since Swift may consider strings with different bytes equal.
    directory == "/" || path.utf8.elementsEqual(directory.utf8) || path.utf8.starts(with: (directory + "/").utf8)
  }
}
