import CProtectfsIO
import ProtectfsLibc
import SystemPackage

/// The result of statx(2): attributes and times of a file, including the birth time.
package typealias Status = linux_status

/// The result of statvfs(3): sizes and limits of a file system.
package typealias FileSystemStatus = statvfs

extension Status {
  /// The file's type bits (`S_IFMT`).
  package var type: InodeType? { InodeType(rawValue: mode & 0o170000) }
  /// Which file it is of.
  package var identity: FileIdentity { FileIdentity(device: device, inode: inode) }
  /// Whether it is of the same file.
  package func isSame(as other: Status) -> Bool { inode == other.inode && device == other.device }
  /// Whether this, found by its name in a directory of a file system, is of another file system. By its device number
  /// only directories are judged: on overlayfs, files have those of the layers (kernel: filesystems/overlayfs.rst,
  /// "Inode properties").
  ///
  /// - Parameter device: the device number of the directory.
  package func isOutside(_ device: UInt64) -> Bool {
    is_mount_root != 0 || type == .directory && self.device != device
  }
  /// Permissions, set-ID and sticky bits.
  package var permissions: UInt32 { mode & 0o7777 }
}

/// The type of a file: the `S_IFMT` bits of a mode (inode(7)).
package enum InodeType: UInt32, Sendable {
  case fifo = 0o010000
  case character = 0o020000
  case directory = 0o040000
  case block = 0o060000
  case regular = 0o100000
  case symbolicLink = 0o120000
  case socket = 0o140000
}

extension Descriptor {
  /// `AT_EMPTY_PATH`: the call applies to the descriptor itself (openat(2)).
  static let emptyPath: CInt = 0x1000

  /// The status of the open file.
  package func status() throws(Errno) -> Status {
    var status = Status()
    try check(unsafe linux_statx(rawValue, "", Self.emptyPath, &status))
    return status
  }

  /// The status of the open file as the server of a network file system has it, and not this host's memory of it
  /// (`AT_STATX_FORCE_SYNC`, statx(2)).
  package func statusOfServer() throws(Errno) -> Status {
    var status = Status()
    try check(unsafe linux_statx(rawValue, "", Self.emptyPath | 0x2000, &status))
    return status
  }

  /// The status of a name in this directory. A symbolic link is not followed.
  package func status(of name: PathName) throws(Errno) -> Status {
    var status = Status()
    try check(unsafe name.withCString { unsafe linux_statx(rawValue, $0, AT_SYMLINK_NOFOLLOW, &status) })
    return status
  }

  /// Whether this directory has a name.
  package func exists(_ name: PathName) throws(Errno) -> Bool {
    do throws(Errno) { _ = try status(of: name) } catch .noSuchFileOrDirectory { return false }
    return true
  }

  /// The status of the file system (statvfs(3)).
  package func fileSystemStatus() throws(Errno) -> FileSystemStatus {
    var status = FileSystemStatus()
    try call("fstatvfs", unsafe store_fstatvfs(rawValue, &status))
    return status
  }
}

/// A file, whatever its name.
package struct FileIdentity: Hashable, Sendable {
  fileprivate let device, inode: UInt64
}
