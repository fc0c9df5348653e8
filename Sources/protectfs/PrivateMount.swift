import Glibc
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// A store mounted read-only in a directory that only this user reaches, for as long as it is needed.
///
/// The daemon is a child of this process and ends with it, however that ends.
final class PrivateMount {
  /// What there is to be put away; known as soon as there is anything.
  private struct Traces: Sendable {
    let directory: String
    let process: Int32

    var mountPoint: String { directory + "/store" }
    var log: String { directory + "/log" }

    /// Unmounts, waits for the daemon and removes the directory.
    func remove() {
      if !Unmount.run(mountPoint, isLazy: false) { kill(process, SIGTERM) }
      var hasEnded = false
      for _ in 0..<1000 where !hasEnded {
        hasEnded = waitpid(process, nil, WNOHANG) != 0
        if !hasEnded { Thread.sleep(microseconds: 10_000) }
      }
      if MountedFileSystem.all().contains(where: { $0.mountPoint == mountPoint }) {
        _ = Unmount.run(mountPoint, isLazy: true)
      }
      PrivateMount.removeDirectory(directory)
    }
  }

  private let traces: Traces
  /// What ends the process puts the mount away first.
  let interruption: Interruption
  var mountPoint: String { traces.mountPoint }

  /// Mounts a store, which stays locked.
  ///
  /// Signals must be blocked, and there must be no other thread yet.
  init(_ backing: String, deviceKeyFile: String?) throws {
    Self.removeLeftovers()
    let directory = try Self.makeDirectory()
    var arguments = [
      "protectfs", "mount", "--foreground", "-o", "ro,hooks=off", "--log-file", directory + "/log",
    ]
    if let deviceKeyFile { arguments += ["--device-key", deviceKeyFile] }
    do throws(Errno) {
      let child = try Process.startChild("/proc/self/exe", arguments + [backing, directory + "/store"])
      traces = Traces(directory: directory, process: child)
    } catch {
      Self.removeDirectory(directory)
      throw error
    }
    interruption = Interruption()
    interruption.onEnd { [traces] in traces.remove() }
    do {
      try waitUntilMounted(backing)
    } catch {
      end()
      throw error
    }
  }

  /// Unmounts it, and leaves nothing behind. Whatever was opened in it must be closed.
  func end() {
    interruption.disarm()
    traces.remove()
  }

  private func waitUntilMounted(_ backing: String) throws {
    let path = traces.mountPoint
    for _ in 0..<6000 {
      var status: Int32 = 0
      if unsafe waitpid(traces.process, &status, WNOHANG) != 0 {
        let exitStatus = status & 0x7f == 0 ? ExitStatus(rawValue: (status >> 8) & 0xff) : nil
        // One that was told to end has ended well, and is of no use all the same.
        let failure = exitStatus == .success ? nil : exitStatus
        throw CommandFailure(failure ?? .failure, "the store in \(backing.printable) cannot be mounted")
      }
      if MountedFileSystem.all().contains(where: { $0.mountPoint == path }),
        var daemon = try? DaemonConnection(mountPoint: path), (try? daemon.status()) != nil
      {
        return
      }
      Thread.sleep(microseconds: 10_000)
    }
    throw CommandFailure(.noAnswer, "the store in \(backing.printable) is not mounted after a minute")
  }

  // MARK: The directory

  private static let prefix = "protectfs-restore."

  private static var parent: String {
    unsafe getenv("TMPDIR").map { unsafe String(cString: $0) } ?? "/tmp"
  }

  private static func makeDirectory() throws -> String {
    // As the kernel will list it.
    let parent = try CanonicalPath.of(parent)
    // mkdtemp(3) puts letters of its own in place of the six at the end. The process tells later runs what is left of dead ones.
    let letters = String(repeating: "X", count: 6)
    var template = Array("\(parent)/\(prefix)\(getpid()).\(letters)".utf8CString)
    let isMade = unsafe template.withUnsafeMutableBufferPointer { unsafe mkdtemp($0.baseAddress!) != nil }
    guard isMade else { throw CommandFailure(parent, Errno(rawValue: errno)) }
    let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    guard unsafe mkdir(path + "/store", 0o700) == 0 else { throw CommandFailure(path, Errno(rawValue: errno)) }
    return path
  }

  private static func removeDirectory(_ path: String) {
    unsafe unlink(path + "/log")
    unsafe rmdir(path + "/store")
    unsafe rmdir(path)
  }

  /// Removes what killed runs have left: empty directories, since their daemons have ended with them.
  private static func removeLeftovers() {
    let names =
      (try? DirectoryNames(Descriptor.open(PathName(parent), [.readOnly, .directory])).all(limit: .max)) ?? []
    for name in names.map(\.description) where name.hasPrefix(prefix) {
      guard let process = name.dropFirst(prefix.count).split(separator: ".").first.flatMap({ Int32($0) }),
        kill(process, 0) != 0, errno == ESRCH
      else { continue }
      removeDirectory("\(parent)/\(name)")
    }
  }
}
