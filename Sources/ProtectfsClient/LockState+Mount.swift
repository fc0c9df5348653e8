import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// The lock state is also an extended attribute of a mount's root. Anyone who may list that directory may read it.
extension LockState {
  /// The state of the mount that contains a file or directory. The state is read from the mount itself, so this needs
  /// no connection and works for users other than the owner. While a lock wipes keys, the state is still
  /// ``gracePeriod``; it is ``locked`` when they are gone.
  ///
  /// - Throws: `ENOTSUP` if the path is not on a protectfs mount, or its daemon does not have this attribute; `EACCES`
  ///   if this user may not list the root; `ENOTCONN` if the daemon is gone.
  public init(ofMountAt path: String) throws(Errno) {
    guard let mount = try MountedFileSystem.find(containing: path) else { throw .notSupported }
    // A bind mount may begin below the root, where the attribute does not exist.
    for candidate in [mount] + mount.sameFileSystem() {
      do throws(Errno) {
        let text = try String(
          decoding: PathName(candidate.mountPoint).attribute(PathName(Self.attributeName)), as: UTF8.self)
        guard let state = Self(rawValue: text) else { throw .notSupported }
        self = state
        return
      } catch .noData {
        continue
      } catch {
        throw error.isOfAGoneDaemon ? .socketNotConnected : error
      }
    }
    throw .notSupported
  }
}
