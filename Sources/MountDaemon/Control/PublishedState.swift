import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The lock state of this process's mount, where programs find it without asking (``PublishedStates``).
final class PublishedState: Sendable {
  private let byte: PublishedByte
  private let directory: SocketDirectory
  private let name: PathName

  /// Publishes the state of a mount in a directory, which it makes if necessary.
  ///
  /// - Throws: `ENOTSUP` where that is on no tmpfs.
  init(of mount: MountedFileSystem, _ state: LockState, in path: String) throws(Errno) {
    name = PathName(PublishedStates.name(ofDevice: mount.device))
    let directory = try SocketDirectory(creating: path)
    byte = try Self.publish(PublishedStates.content(state, process: Process.number), name, in: directory)
    self.directory = directory
  }

  /// Removes what other daemons have left behind that were killed, and gives the file its name.
  private static func publish(
    _ content: [UInt8], _ name: PathName, in directory: borrowing SocketDirectory
  ) throws(Errno) -> PublishedByte {
    // Another daemon's file has no lock yet when it is made. Anybody of this user's may have locked the directory.
    guard try directory.descriptor.lock(until: MonotonicClock.now + .seconds(1)) else { throw .timedOut }
    defer { directory.descriptor.unlock() }
    // The last mount with this number may not have ended yet.
    try? directory.descriptor.unlink(name)
    for other in directory.names(limit: 1000) where other.contains(PublishedStates.suffix) {
      if let file = try? directory.openFile(other), !file.isLockedByOthers {
        try? directory.descriptor.unlink(PathName(other))
      }
    }
    return try PublishedByte(content, named: name, in: directory.descriptor)
  }

  /// Publishes another state.
  func set(_ state: LockState) { byte.set(PublishedStates.byte(for: state)) }

  /// Removes the file, unless another daemon's has its name.
  func remove() {
    if let inode = byte.inode, (try? directory.descriptor.status(of: name).inode) == inode {
      try? directory.descriptor.unlink(name)
    }
  }
}
