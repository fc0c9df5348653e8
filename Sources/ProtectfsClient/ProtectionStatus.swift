import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// What can be done now with the contents of a file or directory, and what prevents more.
public struct ProtectionStatus: Sendable, Hashable {
  /// The reason why an item cannot be used. Later versions may add others.
  @nonexhaustive
  public enum Obstacle: String, Sendable, Codable, CaseIterable {
    /// The key of its class is not in memory. Wait for an unlock.
    case classLocked
    /// Its mode bits or its ACL deny this user access.
    case permissions
    /// The key of its class was erased, reset or rotated away. Only a copy from elsewhere restores the contents.
    case keyRevoked
  }

  /// The event that makes a locked class available again. Later versions may add others.
  @nonexhaustive
  public enum Return: String, Sendable, Codable {
    /// The first unlock since the mount.
    case firstUnlock
    /// The next unlock.
    case unlock

    /// The event that makes a class available that is locked in a state; `nil` stands for an unknown state.
    package init(in state: LockState?) {
      self = state == .beforeFirstUnlock ? .firstUnlock : .unlock
    }
  }

  /// The mount that the file is on.
  public let mount: MountedFileSystem
  /// Its class; for a directory, the class of what is created in it.
  public let protectionClass: ProtectionClass
  /// Whether it is a directory.
  public let isDirectory: Bool
  /// The lock state of the mount; `nil` if this user may not read it from the root.
  public let state: LockState?
  /// What prevents opening a file, or creating a file in a directory; `nil` if nothing does.
  public let obstacle: Obstacle?

  /// How much of the class's key is in memory; `nil` if ``state`` is.
  public var key: KeyAvailability? {
    state.map { ProtectionPolicy.keyAvailability(of: protectionClass, in: $0) }
  }

  /// Whether a file can be opened for reading, or files can be created in a directory.
  public var isUsable: Bool { obstacle == nil }

  /// For a locked class, the event that makes it available again.
  public var returns: Return? {
    obstacle == .classLocked ? Return(in: state) : nil
  }

  /// Examines a file or directory. A symbolic link is followed.
  ///
  /// - Throws: `ENOTSUP` if the path is not on a protectfs mount, or the error of examining it.
  public init(ofItemAt path: String) throws(Errno) {
    guard let mount = try MountedFileSystem.find(containing: path) else { throw .notSupported }
    self.mount = mount
    isDirectory = try Descriptor.open(PathName(path), [.path]).status().type == .directory
    protectionClass = try ProtectionClass(ofItemAt: path)
    state = try? LockState(ofMountAt: path)
    obstacle = Self.obstacle(path, protectionClass, isDirectory: isDirectory, state)
  }

  private static func obstacle(
    _ path: String, _ protectionClass: ProtectionClass, isDirectory: Bool, _ state: LockState?
  ) -> Obstacle? {
    let isPermitted = (try? Process.requireAccess(to: path, isDirectory ? .create : .read)) != nil
    // Creation in a directory is not tried, since it would leave a file behind.
    let failure = isPermitted && !isDirectory ? openError(path) : nil
    if failure == .keyRevoked { return .keyRevoked }
    let isLocked =
      if let state {
        ProtectionPolicy.access(for: isDirectory ? .create : .open, on: protectionClass, in: state) != .allowed
      } else {
        failure == .permissionDenied
      }
    return isLocked ? .classLocked : isPermitted ? nil : .permissions
  }

  /// The error of opening the file. A locked class makes the open fail at once.
  private static func openError(_ path: String) -> Errno? {
    do throws(Errno) {
      _ = try Descriptor.open(PathName(path), [.readOnly, .nonBlocking])
      return nil
    } catch {
      return error
    }
  }
}
