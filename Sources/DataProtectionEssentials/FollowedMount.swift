import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// Which mounts a listener means, also after they were mounted again. Nothing here sends a request to a daemon.
package struct FollowedMount: Sendable {
  /// A path on the mount; `nil` for all mounts.
  private let path: FollowedPath?

  /// The mount of a path, at the time of each query.
  package init(path: String) {
    self.path = FollowedPath(path)
  }

  /// All mounts of this user's. Those of others are asked nothing: nobody named them, and they may never answer.
  package static let all = FollowedMount()

  private init() { path = nil }

  /// Whether it is known which path is meant: not while a file system on the way to it does not answer.
  package var isResolved: Bool { path.map { $0.canonical != nil } ?? true }

  /// Its file systems as they are now, each by one of its mounts; none if nothing is mounted.
  package func current(in mounts: [MountedFileSystem]) -> [MountedFileSystem] {
    guard let followed = path else {
      let user = ProtectfsIO.Process.identity.user
      var seen: Set<String> = []
      return mounts.filter { $0.owner == user && seen.insert($0.device).inserted }
    }
    let path = followed.canonical ?? followed.given
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

/// A path that leads to a mount. It is resolved once, as soon as the file systems on the way answer.
private final class FollowedPath: Sendable {
  let given: String
  private let resolved = RankedMutex<String?>(.daemonCall, nil)

  init(_ given: String) {
    self.given = given
    _ = canonical
  }

  /// The canonical path, which a mount point has even if nothing is mounted on it; `nil` where a file system does not
  /// answer.
  var canonical: String? {
    if let known = resolved.withLock({ $0 }) { return known }
    let path =
      Self.cached(given)
      ?? (try? BoundedCall.result(about: given) { [given] () throws(Errno) in
        URL(fileURLWithPath: given).standardizedFileURL.resolvingSymlinksInPath().path(percentEncoded: false)
      })
    resolved.withLock { $0 = path }
    return path
  }

  /// What the kernel knows of it without asking a file system.
  private static func cached(_ path: String) -> String? {
    guard path.hasPrefix("/"), let file = try? Descriptor.openCached(PathName(path)),
      let links = try? Descriptor.open("/proc/self/fd", [.path, .directory]),
      let target = try? links.target(ofSymbolicLink: PathName("\(file.rawValue)"))
    else { return nil }
    return String(validating: target, as: UTF8.self)
  }
}
