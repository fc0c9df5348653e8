import ProtectfsClient
import ProtectfsIO

/// What holds a file system whose mount point is gone or whose daemon was killed: its other mounts, here and in other
/// mount namespaces, and processes that have files open on it. What the user may not look into is left out.
package struct MountHolders {
  /// A few words for each.
  private var holders: [String] = []

  /// What a mount cannot be unmounted for: the mounts below it, and processes.
  package init(using mount: MountedFileSystem) {
    holders = MountedFileSystem.mountPoints(below: mount.mountPoint).map { "the mount at \($0.printable)" }
    holders += Process.all.filter { $0 != Process.number && Process.uses(device: mount.device, $0) }.map {
      "\(Self.name(of: $0)), which has files open on it"
    }
  }

  /// The holders of a file system whose mount point is gone, without its daemon.
  package init(of mount: MountedFileSystem, daemon: Int32) {
    holders = mount.sameFileSystem().map { "its mount at \($0.mountPoint.printable)" }
    var namespaces: Set<String?> = [Process.mountNamespace(of: Process.number)]
    for process in Process.all where process != daemon && process != Process.number {
      let namespace = Process.mountNamespace(of: process)
      let isElsewhere = namespace != nil && !namespaces.contains(namespace)
      let mounts = isElsewhere ? (try? MountedFileSystem.listed(in: "/proc/\(process)/mountinfo")) ?? [] : []
      if let other = mounts.first(where: { $0.device == mount.device }) {
        namespaces.insert(namespace)
        holders.append("\(Self.name(of: process)) and others in its mount namespace, at \(other.mountPoint.printable)")
      } else if Process.uses(device: mount.device, process) {
        holders.append("\(Self.name(of: process)), which has files open on it")
      }
    }
  }

  /// The processes that can read pages of a mount whose daemon was killed. The process beside the daemon drops the
  /// pages; it is waited for, up to three seconds. Where it was killed too, they are readable for whoever has files
  /// open.
  package init(ofPagesOf mount: MountedFileSystem) {
    let deadline = MonotonicClock.now + .seconds(3)
    let users = Process.all.filter { $0 != Process.number && Process.uses(device: mount.device, $0) }
    if users.isEmpty { return }
    while !PageRemovalMark.isSet(for: mount) {
      if MonotonicClock.now > deadline {
        holders = users.map(Self.name)
        return
      }
      MonotonicClock.sleep(microseconds: 50_000)
    }
  }

  package var isEmpty: Bool { holders.isEmpty }

  /// The first of them, in a sentence.
  package var words: String {
    guard !isEmpty else {
      return Process.identity.user == 0
        ? "the kernel holds it, for a loop device, a swap file or an export of NFS"
        : "what holds it is not to be seen by this user"
    }
    let rest = holders.count - 5
    return "it is held by " + holders.prefix(5).joined(separator: ", by ") + (rest > 0 ? ", and \(rest) more" : "")
  }

  private static func name(of process: Int32) -> String {
    "process \(process)\(Process.name(of: process).map { " (\($0.printable))" } ?? "")"
  }
}
