import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// The state is also an extended attribute of a mount's root, which everyone may read who may list that directory.
extension LockState {
  /// The state of the mount that a file or directory is in, read from the mount itself: also for who is not its owner, and
  /// without a connection. While a lock takes the keys away it is still ``gracePeriod``, and ``locked`` when they have gone.
  ///
  /// - Throws: `ENOTSUP` where the path is on no protectfs mount, or its daemon knows no such attribute; `EACCES` where the
  ///   root is not this user's to list; `ENOTCONN` where the daemon is gone.
  public init(ofMountAt path: String) throws(Errno) {
    guard let mount = try MountedFileSystem.find(containing: path) else { throw .notSupported }
    // A bind mount may begin below the root, where the attribute is not.
    for candidate in [mount] + mount.sameFileSystem() {
      do throws(Errno) {
        let text = try String(
          decoding: PathName(candidate.mountPoint).attribute(PathName(Self.attributeName)), as: UTF8.self)
        guard let state = Self(rawValue: text) else { throw .notSupported }
        self = state
        return
      } catch .noData {
        continue
      }
    }
    throw .notSupported
  }
}
