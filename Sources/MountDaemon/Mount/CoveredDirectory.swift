import ProtectfsIO
import SystemPackage

/// The directory that a mount covers. Its owner may have made it one that nobody may write, so that programs write no
/// plaintext there while nothing is mounted.
///
/// For users other than root, fusermount3(1) mounts only where they may write.
struct CoveredDirectory: ~Copyable {
  private let descriptor: Descriptor

  init(_ path: String) throws(Errno) { descriptor = try Descriptor.open(PathName(path), [.path, .directory]) }

  /// Runs `body`, which mounts, while the owner may write in the directory.
  func writable<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
    let user = Process.identity.user
    guard user != 0, let status = try? descriptor.status(), status.user == user, status.mode & 0o200 == 0,
      (try? descriptor.setModeThroughPath(status.mode & 0o7777 | 0o200)) != nil
    else { return try body() }
    defer { try? descriptor.setModeThroughPath(status.mode & 0o7777) }
    try body()
  }
}
