import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// Directories in /tmp, named after the process that uses them, so that those of a dead process can be recognised.
enum TemporaryDirectory {
  private static let prefix = "protectfs-tests."

  static func make() throws(Errno) -> PathName {
    var name = Array("/tmp/\(prefix)\(getpid()).XXXXXX".utf8CString)
    let made = unsafe name.withUnsafeMutableBufferPointer { unsafe mkdtemp($0.baseAddress!) != nil }
    guard made else { throw Errno(rawValue: errno) }
    let path = PathName(bytes: name.dropLast().map { UInt8(bitPattern: $0) })
    // Unprivileged programs are run in it.
    try path.setMode(0o755)
    return path
  }

  /// Removes a directory and what is in it.
  static func remove(_ path: PathName) {
    _ = try? Program.run(["rm", "-rf", "--one-file-system", path.description])
  }

  /// Removes what earlier runs have left, once per run.
  static let removeLeftovers: Void = {
    for mount in MountedFileSystem.all() where isLeftover(mount.mountPoint) {
      try? PathName(mount.mountPoint).unmount(isLazy: true)
    }
    for name in (try? PathName("/tmp").names()) ?? [] where isLeftover("/tmp/\(name)") {
      remove(PathName("/tmp/\(name)"))
    }
  }()

  private static func isLeftover(_ path: String) -> Bool {
    guard path.hasPrefix("/tmp/\(prefix)"), let owner = path.split(separator: ".").dropFirst().first,
      let process = CInt(owner)
    else { return false }
    return calls_kill(process, 0) == -ESRCH
  }
}
