import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage

/// An ordinary directory that stands in for a mount in this process, for tests of apps where nothing can be mounted.
///
/// `DataProtectionTesting` has the only implementation. It answers the calls of the C library, so that here it is known
/// only where there is one.
package protocol StandInMount: AnyObject, Sendable {
  /// How it is listed. Its mount point is a canonical path.
  var mount: MountedFileSystem { get }
}

/// The stand-ins of this process.
package enum StandInMounts {
  private static let all = RankedMutex<[any StandInMount]>(.standInMounts, [])
  /// Whether there was one ever. Where not, no mutex is taken: a `Mutex` remembers its thread, and so cannot be used by
  /// a thread that becomes a daemon by fork(2), which looks for mounts before.
  private static let hasAny = Atomic<Bool>(false)

  package static func add(_ mount: any StandInMount) {
    all.withLock { $0.append(mount) }
    hasAny.store(true, ordering: .releasing)
  }

  package static func remove(_ mount: any StandInMount) {
    all.withLock { $0.removeAll { $0 === mount } }
  }

  private static var list: [any StandInMount] { hasAny.load(ordering: .acquiring) ? all.withLock { $0 } : [] }

  static var mounts: [MountedFileSystem] { list.map { $0.mount } }

  /// The stand-in that contains a file or directory.
  package static func containing(_ path: PathName) throws(Errno) -> (any StandInMount)? {
    let mounts = list
    if mounts.isEmpty { return nil }
    let bytes = try path.canonical().bytes
    return mounts.first { mount in
      let root = mount.mount.mountPoint.utf8
      return bytes.elementsEqual(root) || bytes.starts(with: Array(root) + [UInt8(ascii: "/")])
    }
  }
}
