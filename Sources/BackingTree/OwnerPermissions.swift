import Logging
import ProtectfsIO
import SystemPackage

/// Temporary owner permissions on backing files.
///
/// Modes restrict callers, and the kernel checks them. A daemon without privileges is restricted by them too, but needs
/// more: to read files that their owner may only write, to set records of files that their owner may only read, and to
/// reach files below a directory that its owner may not search. The daemon then adds temporary owner permissions. If it
/// is killed meanwhile, the owner keeps them.
package final class OwnerPermissions: Sendable {
  private let mayAdd: Bool
  /// Held while the mode of a file includes temporary owner permissions.
  private let adding = RankedMutex<Void>(.temporaryPermissions, ())
  private let log: Logger

  /// - Parameter mayAdd: whether the store may be changed. A reader would undo what the writer does to a mode.
  init(mayAdd: Bool, log: Logger) {
    self.mayAdd = mayAdd && Process.identity.user != 0
    self.log = log
  }

  /// Runs `body`; if permission is denied, runs it again with temporary owner permissions (chmod(2)).
  package func ensuring<Result: ~Copyable>(
    on descriptor: borrowing Descriptor, _ body: () throws(Errno) -> Result
  ) throws(Errno) -> Result {
    do throws(Errno) {
      return try body()
    } catch .permissionDenied {
      guard mayAdd else { throw .permissionDenied }
      let isDirectory = try descriptor.status().type == .directory
      return try adding.withLock { (_) throws(Errno) in
        try descriptor.addingOwnerPermissions(isDirectory ? 0o700 : 0o600, notRestored: reportNotRestored, body)
      }
    }
  }

  /// Sets permissions, but not while a file has temporary owner permissions.
  package func set(_ permissions: UInt32, of descriptor: borrowing Descriptor) throws(Errno) {
    try adding.withLock { (_) throws(Errno) in try descriptor.setModeThroughPath(permissions) }
  }

  private func reportNotRestored(_ error: Errno, _ permissions: UInt32) {
    log.error("a file's mode could not be restored", metadata: ["error": "\(error)", "mode": "\(permissions)"])
  }
}
