import ProtectfsIO
import SystemPackage

/// A mount that this process does not see, in another mount namespace (mount_namespaces(7)).
package struct ForeignMount: Sendable {
  package let mount: MountedFileSystem
  /// A process of the namespace.
  package let process: Int32
  /// Whether that process is in another user namespace, too.
  package let hasOtherUsers: Bool

  /// Those whose file systems are none of these. Namespaces of processes that this one may not look at are left out. No
  /// file system is asked for anything.
  ///
  /// - Parameter devices: the device numbers of file systems that are known.
  package static func all(besides devices: some Sequence<String>) -> [ForeignMount] {
    guard let directory = try? Descriptor.open("/proc", [.path, .directory]),
      let own = try? directory.target(ofSymbolicLink: "self/ns/mnt"),
      let users = try? directory.target(ofSymbolicLink: "self/ns/user")
    else { return [] }
    var (namespaces, known): (Set<[UInt8]>, Set<String>) = ([own], Set(devices))
    var found: [ForeignMount] = []
    for process in Process.all.sorted() {
      guard let namespace = try? directory.target(ofSymbolicLink: PathName("\(process)/ns/mnt")),
        namespaces.insert(namespace).inserted,
        let mounts = try? MountedFileSystem.listed(in: "/proc/\(process)/mountinfo")
      else { continue }
      let others = (try? directory.target(ofSymbolicLink: PathName("\(process)/ns/user"))) ?? users
      for mount in mounts where known.insert(mount.device).inserted {
        found.append(ForeignMount(mount: mount, process: process, hasOtherUsers: others != users))
      }
    }
    return found
  }
}
