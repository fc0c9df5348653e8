import CProtectfsIO
import ProtectfsLibc
import SystemPackage

// Calls on the names in an open directory. Each is the system call of a similar name.
extension Descriptor {
  package func makeDirectory(_ name: PathName, mode: UInt32) throws(Errno) {
    try call("mkdirat", unsafe name.withCString { unsafe store_mkdirat(rawValue, $0, mode) })
  }

  /// Creates a fifo, a socket, a device or an empty regular file (mknod(2)).
  package func makeNode(_ name: PathName, mode: UInt32, device: UInt64) throws(Errno) {
    try call("mknodat", unsafe name.withCString { unsafe store_mknodat(rawValue, $0, mode, dev_t(device)) })
  }

  package func makeSymbolicLink(_ name: PathName, target: PathName) throws(Errno) {
    try call(
      "symlinkat",
      unsafe name.withCString { name in unsafe target.withCString { unsafe store_symlinkat($0, rawValue, name) } })
  }

  /// The target of a symbolic link, up to `PATH_MAX` − 1 bytes. An empty name stands for the descriptor itself.
  package func target(ofSymbolicLink name: PathName) throws(Errno) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = try unsafe bytes.withMutableBytes { (buffer) throws(Errno) in
      try call(
        "readlinkat",
        unsafe name.withCString {
          unsafe store_readlinkat(rawValue, $0, buffer.baseAddress!.assumingMemoryBound(to: CChar.self), buffer.count)
        })
    }
    bytes.removeSubrange(count...)
    return bytes
  }

  package func unlink(_ name: PathName) throws(Errno) {
    try call("unlinkat", unsafe name.withCString { unsafe store_unlinkat(rawValue, $0, 0) })
  }

  package func removeDirectory(_ name: PathName) throws(Errno) {
    try call("unlinkat", unsafe name.withCString { unsafe store_unlinkat(rawValue, $0, AT_REMOVEDIR) })
  }

  package func rename(
    _ name: PathName, to target: PathName, in directory: borrowing Descriptor, flags: RenameFlags = []
  ) throws(Errno) {
    let other = directory.rawValue
    try call(
      "renameat2",
      unsafe name.withCString { name in
        unsafe target.withCString { unsafe store_renameat2(rawValue, name, other, $0, flags.rawValue) }
      })
  }

  /// Gives the open file another name. It may have been opened with `O_PATH` (linkat(2), through /proc).
  package func link(to target: PathName, in directory: borrowing Descriptor) throws(Errno) {
    try Self.link(AT_FDCWD, PathName(descriptor: self), to: target, in: directory, AT_SYMLINK_FOLLOW)
  }

  /// Gives the file with a name another name. A symbolic link is not followed (linkat(2)).
  package func link(_ name: PathName, to target: PathName, in directory: borrowing Descriptor) throws(Errno) {
    try Self.link(rawValue, name, to: target, in: directory, 0)
  }

  private static func link(
    _ own: CInt, _ name: PathName, to target: PathName, in directory: borrowing Descriptor, _ flags: CInt
  ) throws(Errno) {
    let other = directory.rawValue
    try call(
      "linkat",
      unsafe name.withCString { name in unsafe target.withCString { unsafe store_linkat(own, name, other, $0, flags) } }
    )
  }

  /// Whether this directory is one with that status, or is below it: by what they are, and not by how they are called.
  package func isInside(_ other: Status) throws(Errno) -> Bool {
    var below = try status()
    if below.isSame(as: other) { return true }
    var directory = SharedDescriptor(try open("..", [.path, .directory]))
    while true {
      let status = try directory.descriptor.status()
      if status.isSame(as: below) { return false }
      if status.isSame(as: other) { return true }
      directory = SharedDescriptor(try directory.descriptor.open("..", [.path, .directory]))
      below = status
    }
  }
}

/// The flags of renameat2(2).
package struct RenameFlags: OptionSet, Sendable {
  package let rawValue: UInt32

  package init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  package static let noReplace = RenameFlags(rawValue: 1)
  package static let exchange = RenameFlags(rawValue: 2)
  package static let whiteout = RenameFlags(rawValue: 4)
}
