import MountDaemon
import ProtectfsClient
import ProtectfsIO

/// Who holds a file system whose mount point is gone: its other mounts, here and in other mount namespaces, and processes
/// that have files open on it. What the user may not look into is left out.
enum MountHolders {
  /// A few words for each, without the daemon.
  static func find(_ mount: MountedFileSystem, daemon: Int32) -> [String] {
    var holders = mount.sameFileSystem().map { "its mount at \($0.mountPoint.printable)" }
    var namespaces: Set<String?> = [Process.mountNamespace(of: Process.number)]
    for process in Process.all where process != daemon && process != Process.number {
      let namespace = Process.mountNamespace(of: process)
      let isElsewhere = namespace != nil && !namespaces.contains(namespace)
      if isElsewhere, let other = mounts(of: process).first(where: { $0.device == mount.device }) {
        namespaces.insert(namespace)
        holders.append("\(name(of: process)) and others in its mount namespace, at \(other.mountPoint.printable)")
      } else if Process.uses(device: mount.device, process) {
        holders.append("\(name(of: process)), which has files open on it")
      }
    }
    return holders
  }

  /// A few words for each process that has files of a file system open.
  static func users(of mount: MountedFileSystem) -> [String] {
    Process.all.filter { $0 != Process.number && Process.uses(device: mount.device, $0) }.map(name)
  }

  private static func mounts(of process: Int32) -> [MountedFileSystem] {
    MountedFileSystem.all(in: "/proc/\(process)/mountinfo")
  }

  private static func name(of process: Int32) -> String {
    "process \(process)\(Process.name(of: process).map { " (\($0.printable))" } ?? "")"
  }

  /// The first of them, in a sentence.
  static func words(for holders: [String]) -> String {
    guard !holders.isEmpty else { return "what holds it is not to be seen by this user" }
    let rest = holders.count - 5
    return "it is held by " + holders.prefix(5).joined(separator: ", by ") + (rest > 0 ? ", and \(rest) more" : "")
  }
}
