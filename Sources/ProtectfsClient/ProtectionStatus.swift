import Glibc
import ProtectfsPolicy
import SystemPackage

/// What can be done now with the contents of one file or directory, and why not more.
public struct ProtectionStatus: Sendable, Hashable {
  /// Why something cannot be used.
  public enum Obstacle: String, Sendable, Codable, CaseIterable {
    /// The key of its class is not in memory: wait for an unlock.
    case classLocked
    /// Its mode bits or its ACL do not let this user.
    case permissions
    /// The key of its class was erased, reset or rotated away: only a copy from elsewhere brings it back.
    case keyRevoked
  }

  /// What brings a locked class back.
  public enum Return: String, Sendable, Codable {
    /// The first unlock since the mount.
    case firstUnlock
    /// The next unlock.
    case unlock

    /// What brings a class back that is locked in a state; `nil` for a state that is not told.
    package init(in state: LockState?) {
      self = state == .beforeFirstUnlock ? .firstUnlock : .unlock
    }
  }

  /// The mount that the file is on.
  public let mount: MountedFileSystem
  /// Its class; of a directory, that of what is created in it.
  public let protectionClass: ProtectionClass
  /// Whether it is a directory.
  public let isDirectory: Bool
  /// The state of the mount; `nil` where its root does not let this user read it.
  public let state: LockState?
  /// Why a file cannot be opened, or no file be created in a directory; `nil` where that can be done.
  public let obstacle: Obstacle?

  /// What is in memory of the class's key; `nil` where ``state`` is.
  public var key: KeyAvailability? {
    state.map { ProtectionPolicy.keyAvailability(of: protectionClass, in: $0) }
  }

  /// Whether a file can be opened for reading, or files be created in a directory.
  public var isUsable: Bool { obstacle == nil }

  /// For a locked class: what brings it back.
  public var returns: Return? {
    obstacle == .classLocked ? Return(in: state) : nil
  }

  /// Looks at a file or directory; a symbolic link is followed.
  ///
  /// - Throws: `ENOTSUP` where the path is on no protectfs mount, and what looking at it fails with.
  public init(ofItemAt path: String) throws(Errno) {
    guard let mount = try MountedFileSystem.find(containing: path) else { throw .notSupported }
    self.mount = mount
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { throw Errno(rawValue: errno) }
    isDirectory = status.st_mode & S_IFMT == S_IFDIR
    protectionClass = try ProtectionClass(ofItemAt: path)
    state = try? LockState(ofMountAt: path)
    obstacle = Self.obstacle(path, protectionClass, isDirectory: isDirectory, state)
  }

  private static func obstacle(
    _ path: String, _ protectionClass: ProtectionClass, isDirectory: Bool, _ state: LockState?
  ) -> Obstacle? {
    let isPermitted = unsafe access(path, isDirectory ? W_OK | X_OK : R_OK) == 0
    // A directory is not tried, since that would leave a file behind.
    let failure = isPermitted && !isDirectory ? openError(path) : 0
    if failure == EKEYREVOKED { return .keyRevoked }
    let isLocked =
      if let state {
        ProtectionPolicy.access(for: isDirectory ? .create : .open, on: protectionClass, in: state) != .allowed
      } else {
        failure == EACCES
      }
    return isLocked ? .classLocked : isPermitted ? nil : .permissions
  }

  /// What opening it fails with; 0 when it does not. A class that is locked makes it fail at once.
  private static func openError(_ path: String) -> CInt {
    let descriptor = unsafe open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { return errno }
    close(descriptor)
    return 0
  }
}
