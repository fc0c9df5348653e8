import ProtectfsIO
import Synchronization
import SystemPackage

// Modes say what callers may do, and the kernel has asked them. But a daemon without privileges is bound by them too: it
// needs to read what its owner may only write, to set records of what its owner may only read, and to get to what is
// below a directory that its owner may not search. A daemon that is killed in between leaves the owner what was lent.
extension BackingTree {
  /// Runs `body`, and where permissions are missing once more with those of the owner lent for the moment (chmod(2)).
  package func lendingPermissions<Result: ~Copyable>(
    of descriptor: borrowing Descriptor, _ body: () throws(Errno) -> Result
  ) throws(Errno) -> Result {
    do throws(Errno) {
      return try body()
    } catch .permissionDenied {
      guard daemonIdentity.user != 0 else { throw .permissionDenied }
      let isDirectory = try descriptor.status().type == .directory
      return try lending.withLock { (_) throws(Errno) in
        try descriptor.lending(isDirectory ? 0o700 : 0o600, keptLent: reportLent, body)
      }
    }
  }

  /// Sets permissions, not while they are lent.
  package func setPermissions(_ permissions: UInt32, of descriptor: borrowing Descriptor) throws(Errno) {
    try lending.withLock { (_) throws(Errno) in try descriptor.setModeThroughPath(permissions) }
  }

  private func reportLent(_ error: Errno, _ permissions: UInt32) {
    log.error("a file's mode could not be restored", metadata: ["error": "\(error)", "mode": "\(permissions)"])
  }
}
