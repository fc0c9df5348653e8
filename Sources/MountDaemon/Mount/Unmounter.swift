import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// A process beside the daemon that takes the mount away when the daemon asks: the daemon itself may neither unmount
/// nor start fusermount3(1) once it has given its privileges up. When the daemon is no more, however it ended, it drops
/// the pages that the kernel still has of the mount's files (``KeptMount``).
///
/// It can do nothing else, and for this mount point only. It ends after the daemon: when the kernel closes the daemon's
/// end of the socket between them, or says that the daemon was killed.
package final class Unmounter: Sendable {
  /// The nodes of files that the kernel knows; the file system keeps them, and the process has them too.
  let files: SharedNumbers
  private let process: ForkedProcess

  private enum Request {
    static let unmount: UInt8 = 0
    static let unmountLazily: UInt8 = 1
    static let keep: UInt8 = 2
    static let keepWithRings: UInt8 = 3
  }

  /// Starts the process. To be done before a secret is in memory and while there is one thread: neither must be in the
  /// copy.
  package init(mountPoint: String) throws(Errno) {
    let files = try SharedNumbers()
    self.files = files
    process = try ForkedProcess { Self.serve($0, mountPoint, files) }
  }

  /// Unmounts; returns whether the mount is gone, whatever has come in its place. A lazy unmount takes the name at
  /// once, and the rest when nobody uses it.
  func unmount(isLazy: Bool) -> Bool {
    do throws(Errno) {
      try process.socket.send([isLazy ? Request.unmountLazily : Request.unmount])
      return try isDone()
    } catch {
      return false
    }
  }

  /// Gives the process a descriptor of the connection, which it uses when this process is no more. `hasRings`: requests
  /// may come through rings.
  func keep(_ connection: consuming KernelConnection, _ mark: PageRemovalMark, hasRings: Bool) throws(Errno) {
    try connection.send(by: process.socket, with: [hasRings ? Request.keepWithRings : Request.keep] + mark.bytes)
    guard try isDone() else { throw .invalidArgument }
  }

  private func isDone() throws(Errno) -> Bool {
    var answer: [UInt8] = [0]
    return try process.socket.receive(into: &answer) == 1 && answer == [1]
  }

  /// Has the process end, and waits until it has. An answer on its way still comes: it was its unmounting that has the
  /// daemon end.
  func end() {
    process.waitForEnd()
  }

  // MARK: The process

  private static func serve(_ socket: consuming LocalSocket, _ mountPoint: String, _ files: SharedNumbers) -> Never {
    // Away from the terminal, whose signals are for the daemon; a service manager sends them to every process. So they
    // have no effect.
    Process.detach(keeping: socket.rawValue)
    Process.resetSignals()
    Process.blockEndingSignals()
    Thread.setName("unmounter")
    Process.forgoStreams()
    // fusermount3(1) brings its own, so this is for root.
    try? Privileges.keep([.administrate, .readAndSearch])
    let daemon = ParentWatch()
    var kept: KeptMount?
    var request = [UInt8](repeating: 0, count: 8192)
    while daemon.wait(for: socket), var received = try? KernelConnection.receive(from: socket, into: &request),
      received.count > 0
    {
      let isDone: Bool
      if request[0] == Request.keep || request[0] == Request.keepWithRings {
        let hasRings = request[0] == Request.keepWithRings
        kept = KeptMount(received.connection.take(), PageRemovalMark(request[1..<received.count]), hasRings: hasRings)
        isDone = kept != nil
      } else {
        let isLazy = request[0] == Request.unmountLazily
        isDone = kept?.unmount(at: mountPoint, isLazy: isLazy) ?? Self.unmount(at: mountPoint, isLazy: isLazy)
      }
      try? socket.send([isDone ? 1 : 0])
    }
    kept.take()?.dropPages(of: files)
    Process.exitAtOnce(0)
  }

  /// Unmounts what is there, and not what that lay in. Returns whether it is gone.
  private static func unmount(at mountPoint: String, isLazy: Bool) -> Bool {
    do throws(Errno) {
      guard let mount = try MountedFileSystem.find(containing: mountPoint), mount.mountPoint == mountPoint else {
        return false
      }
      try Unmount.run(mount, isLazy: isLazy)
      return true
    } catch {
      return false
    }
  }
}
