import SystemPackage

/// Why a directory cannot be used as a store. What to type about it is the command's to say.
package enum StoreError: Error, Equatable, Sendable, CustomStringConvertible {
  case backingUnreadable(path: String, Errno)
  case noStore(path: String)
  case alreadyAStore(path: String)
  case notEmpty(path: String)
  case inUse(path: String)
  /// Who holds the claim is not known to this kernel: it may be on another host.
  case written(path: String)
  /// A writer of another host may be cut off, and its client write later.
  case abandoned(path: String)
  case noLocks(path: String, Errno)
  case writerFileMalformed(path: String)
  case readOnlyFileSystem(path: String)
  case noExtendedAttributes(path: String)
  /// The file system has extended attributes, but the root has not the one that every store has.
  case noRootRecord(path: String)

  package var description: String {
    switch self {
    case .backingUnreadable(let path, let error): "\(path) cannot be used: \(error)"
    case .noStore(let path): "\(path) is no store"
    case .alreadyAStore(let path): "\(path) is a store already"
    case .notEmpty(let path): "\(path) is not empty; a store starts in an empty directory"
    case .inUse(let path): "\(path) is in use by another daemon or command"
    case .written(let path): "another host or process writes the store in \(path)"
    case .abandoned(let path):
      "the last writer of \(path) has not given it up, and what it has begun to write may come later; once its host is off, type 'protectfs takeover --old-host-is-off \(path)'"
    case .noLocks(let path, let error):
      "\(path) cannot be written: its file system has no locks by which several hosts keep one another out (\(error))"
    case .writerFileMalformed(let path):
      "\(path)/.protectfs/writer is no regular file; remove it, once nothing uses the store on any host"
    case .readOnlyFileSystem(let path): "\(path) is on a read-only file system"
    case .noExtendedAttributes(let path):
      "the file system of \(path) has no user extended attributes, in which a store keeps its keys; use ext4, XFS, Btrfs or a recent tmpfs"
    case .noRootRecord(let path):
      "the store in \(path) has lost its extended attributes, in which its keys are, as in a copy made without them"
    }
  }
}
