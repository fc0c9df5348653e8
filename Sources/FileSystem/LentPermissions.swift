import LinuxIO
import Synchronization
import SystemPackage

// Modes say what callers may do, and the kernel has asked them. But a daemon without privileges is bound by them too: it
// needs to read what its owner may only write, and to set records of what its owner may only read.
extension ProtectedFileSystem {
  /// Runs `body`, and where permissions are missing once more with those of the owner lent for the moment (chmod(2)).
  func lendingPermissions<Result: ~Copyable>(
    of descriptor: borrowing Descriptor, _ body: () throws(Errno) -> Result
  ) throws(Errno) -> Result {
    do throws(Errno) {
      return try body()
    } catch .permissionDenied {
      guard daemonIdentity.user != 0 else { throw .permissionDenied }
      return try lending.withLock { (_) throws(Errno) in
        let permissions = try descriptor.status().permissions
        do throws(Errno) {
          try descriptor.setModeThroughPath(permissions | 0o600)
        } catch .notPermitted {
          // It is somebody else's.
          throw .permissionDenied
        }
        defer { restore(permissions, of: descriptor) }
        return try body()
      }
    }
  }

  /// Sets permissions, not while they are lent.
  func setPermissions(_ permissions: UInt32, of descriptor: borrowing Descriptor) throws(Errno) {
    try lending.withLock { (_) throws(Errno) in try descriptor.setModeThroughPath(permissions) }
  }

  private func restore(_ permissions: UInt32, of descriptor: borrowing Descriptor) {
    do throws(Errno) {
      try descriptor.setModeThroughPath(permissions)
    } catch {
      log.error(
        "a file's mode could not be restored", metadata: ["error": "\(error)", "mode": "\(permissions)"])
    }
  }
}
