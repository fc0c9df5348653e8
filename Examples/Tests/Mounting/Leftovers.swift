import DataProtection
import Foundation
import Glibc

/// Directories of tests in /tmp, named after the process that uses them, so that those of a dead one can be told.
enum Leftovers {
  private static let prefix = "protectfs-examples."

  static func makeDirectory() throws -> URL {
    let name = "\(prefix)\(getpid()).\(UUID().uuidString.prefix(8))"
    let directory = URL(fileURLWithPath: "/tmp").appendingPathComponent(name)
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
    return directory
  }

  /// Removes a directory and what is in it, but nothing that is mounted there.
  static func remove(_ directory: URL) {
    let path = directory.path
    guard let program = try? Program("/bin/rm", ["-rf", "--one-file-system", path]) else { return }
    program.wait()
  }

  /// Cleans up after runs that died: once in a run.
  static let remove: Void = {
    for mount in MountedFileSystem.all() where isLeftover(mount.mountPoint) {
      _ = try? Program("/bin/umount", ["-l", mount.mountPoint]).wait()
    }
    for name in (try? FileManager.default.contentsOfDirectory(atPath: "/tmp")) ?? [] where isLeftover("/tmp/\(name)") {
      remove(URL(fileURLWithPath: "/tmp/\(name)"))
    }
  }()

  private static func isLeftover(_ path: String) -> Bool {
    guard path.hasPrefix("/tmp/\(prefix)"), let owner = path.split(separator: ".").dropFirst().first,
      let process = Int32(owner)
    else { return false }
    return kill(process, 0) != 0 && errno == ESRCH
  }
}
