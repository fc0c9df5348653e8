import DataProtectionCore
import Glibc
import SystemPackage

/// What can be done now with one file or directory, and why not more.
struct PathStatus: Encodable {
  /// Why something cannot be used.
  enum Obstacle: String, Encodable {
    /// The key of its class is not in memory.
    case classLocked
    /// Its mode bits or its ACL do not let this user.
    case permissions
    /// The key of its class was erased, reset or rotated away.
    case keyRevoked
  }

  let path: String
  let mountPoint: String
  let protectionClass: ProtectionClass
  let isDirectory: Bool
  /// The state of the mount; `nil` where its daemon does not tell this user.
  let state: LockState?
  /// What is in memory of the class's key; `nil` as before.
  let key: KeyAvailability?
  /// Whether a file can be opened for reading, or files be created in a directory.
  let isUsable: Bool
  let obstacle: Obstacle?

  private enum CodingKeys: String, CodingKey {
    case path, mountPoint, isDirectory, state, key, isUsable, obstacle
    case protectionClass = "class"
  }

  init(path: String, on mount: MountedFileSystem) throws {
    self.path = path
    mountPoint = mount.mountPoint
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { throw CommandFailure(path, Errno(rawValue: errno)) }
    isDirectory = status.st_mode & S_IFMT == S_IFDIR
    do throws(Errno) {
      protectionClass = try ProtectionClass(ofItemAt: path)
    } catch {
      throw CommandFailure(path, error)
    }
    state = try? Self.state(of: mount)
    key = state.map { [protectionClass] in ProtectionPolicy.keyAvailability(of: protectionClass, in: $0) }

    let isPermitted = unsafe access(path, isDirectory ? W_OK | X_OK : R_OK) == 0
    let isLocked =
      if let key {
        ProtectionPolicy.access(for: isDirectory ? .create : .open, with: key) != .allowed
      } else {
        // Only trying tells this user; a directory is not tried, since that would leave a file behind.
        isPermitted && !isDirectory && Self.openError(path) == EACCES
      }
    let isRevoked = isPermitted && !isDirectory && Self.openError(path) == EKEYREVOKED
    obstacle = isRevoked ? .keyRevoked : isLocked ? .classLocked : isPermitted ? nil : .permissions
    isUsable = obstacle == nil
  }

  private static func state(of mount: MountedFileSystem) throws(ControlError) -> LockState {
    var daemon = try DaemonConnection(to: mount)
    return try daemon.status().state
  }

  /// What opening it fails with; 0 when it does not. A class that is locked makes it fail at once.
  static func openError(_ path: String) -> CInt {
    let descriptor = unsafe open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { return errno }
    close(descriptor)
    return 0
  }

  /// The report for people.
  var report: String {
    let use = isDirectory ? "files can be created in it" : "can be opened"
    let answer =
      switch obstacle {
      case nil: "\(use) now"
      case .permissions:
        isDirectory
          ? "this user may not create files in it: its permissions say so, not its class"
          : "cannot be opened by this user: its permissions say so, not its class"
      case .keyRevoked:
        "its class key was erased, reset or rotated away; only a copy of it from elsewhere brings it back"
      case .classLocked:
        (isDirectory ? "no files can be created in it now: " : "cannot be opened now: ") + lockedReason
      }
    let kind = isDirectory ? "  (class of what is created in it)" : ""
    return """
      \(path.printable)
        class   \(protectionClass.name) (\(protectionClass.letter))\(kind)
        mount   \(mountPoint.printable), \(state?.words ?? "state not told to this user")
        usable  \(isUsable ? "yes" : "no"): \(answer)
      """
  }

  private var lockedReason: String {
    let state = state?.words ?? "locked"
    return "class \(protectionClass.letter) is not available while \(state); 'protectfs unlock' makes it so"
  }
}
