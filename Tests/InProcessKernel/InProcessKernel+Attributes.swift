import CFUSE
import Glibc
import ProtectfsIO
import SystemPackage

// Attributes, plain and extended.
extension InProcessKernel {
  package func status(
    of path: PathName, in start: Inode? = nil, following: Bool = false, by caller: CallerIdentity = .current
  ) throws(Errno) -> fuse_attr {
    try status(of: inode(path, in: start, following: following, by: caller), by: caller)
  }

  package func status(of inode: Inode, by caller: CallerIdentity = .current) throws(Errno) -> fuse_attr {
    try ask(FUSE_GETATTR, of: inode, Message(fuse_getattr_in()), by: caller, for: fuse_attr_out.self).attr
  }

  package func setMode(
    of path: PathName, in start: Inode? = nil, to mode: UInt32, by caller: CallerIdentity = .current
  ) throws(Errno) {
    try set(inode(path, in: start, following: true, by: caller), by: caller) {
      $0.valid = UInt32(FATTR_MODE)
      $0.mode = mode & 0o7777
    }
  }

  /// lchown(2); -1 leaves an owner or group as it is.
  package func setOwner(
    of path: PathName, in start: Inode? = nil, user: Int64, group: Int64, by caller: CallerIdentity = .current
  ) throws(Errno) {
    try set(inode(path, in: start, by: caller), by: caller) {
      $0.setOwner(user: user, group: group)
    }
  }

  package func setTimes(
    of path: PathName, in start: Inode? = nil, access: InodeTime, modification: InodeTime, following: Bool = false,
    by caller: CallerIdentity = .current
  ) throws(Errno) {
    let inode = try inode(path, in: start, following: following, by: caller)
    try setTimes(of: inode, nil, access: access, modification: modification, by: caller)
  }

  func setTimes(
    of inode: Inode, _ handle: UInt64?, access: InodeTime, modification: InodeTime, by caller: CallerIdentity
  ) throws(Errno) {
    if access == .omit, modification == .omit { return }
    try set(inode, through: handle, by: caller) { $0.setTimes(access: access, modification: modification) }
  }

  package func truncate(
    _ path: PathName, in start: Inode? = nil, to length: Int64, by caller: CallerIdentity = .current
  ) throws(Errno) {
    guard length >= 0 else { throw .invalidArgument }
    let inode = try inode(path, in: start, following: true, by: caller)
    guard !inode.isDirectory else { throw .isDirectory }
    guard inode.type == FileType.regular else { throw .invalidArgument }
    try setLength(of: inode, nil, to: length, by: caller)
  }

  func setLength(
    of inode: Inode, _ handle: UInt64?, to length: Int64, by caller: CallerIdentity
  ) throws(Errno) {
    let moves = try UInt64(length) != status(of: inode, by: caller).size
    try set(inode, through: handle, by: caller) {
      $0.valid = UInt32(FATTR_SIZE)
      $0.size = UInt64(length)
      if caller.user != 0 { $0.valid |= UInt32(FATTR_KILL_SUIDGID) }
      if moves { $0.setTimes(access: .omit, modification: .coarseNow) }
    }
  }

  /// FUSE_SETATTR. With the write-back cache the change time comes with it, which nobody can set.
  func set(
    _ inode: Inode, through handle: UInt64? = nil, by caller: CallerIdentity, _ change: (inout fuse_setattr_in) -> Void
  ) throws(Errno) {
    var arguments = fuse_setattr_in()
    change(&arguments)
    arguments.valid |= UInt32(FATTR_CTIME)
    let now = InodeTime.coarseNow
    (arguments.ctime, arguments.ctimensec) = (UInt64(bitPattern: now.seconds), UInt32(now.nanoseconds))
    if let handle {
      arguments.valid |= UInt32(FATTR_FH)
      arguments.fh = handle
    }
    _ = try device.ask(FUSE_SETATTR, of: inode.number, Message(arguments), by: caller)
  }

  // MARK: Extended attributes

  package func attribute(
    _ name: PathName, of path: PathName, in start: Inode? = nil, capacity: Int = 65_536,
    by caller: CallerIdentity = .current
  ) throws(Errno) -> [UInt8] {
    let inode = try inode(path, in: start, by: caller)
    var arguments = Message(fuse_getxattr_in(size: UInt32(capacity), padding: 0))
    arguments.append(try checked(name))
    return try device.ask(FUSE_GETXATTR, of: inode.number, arguments, by: caller)
  }

  package func setAttribute(
    _ name: PathName, of path: PathName, in start: Inode? = nil, to value: [UInt8], flags: UInt32 = 0,
    by caller: CallerIdentity = .current
  ) throws(Errno) {
    guard flags & ~3 == 0 else { throw .invalidArgument }
    let name = try checked(name)
    guard value.count <= 65_536 else { throw .argListTooLong }
    let inode = try inode(path, in: start, by: caller)
    // Without FUSE_SETXATTR_EXT the structure ends here (FUSE_COMPAT_SETXATTR_IN_SIZE).
    var arguments = Message(UInt32(value.count))
    arguments.append(flags)
    arguments.append(name)
    arguments.append(bytes: value)
    _ = try device.ask(FUSE_SETXATTR, of: inode.number, arguments, by: caller)
  }

  package func removeAttribute(
    _ name: PathName, of path: PathName, in start: Inode? = nil, by caller: CallerIdentity = .current
  ) throws(Errno) {
    let inode = try inode(path, in: start, by: caller)
    _ = try device.ask(FUSE_REMOVEXATTR, of: inode.number, Message(checked(name)), by: caller)
  }

  /// The names, each with a NUL.
  package func attributeNames(
    of path: PathName, in start: Inode? = nil, capacity: Int = 65_536, by caller: CallerIdentity = .current
  ) throws(Errno) -> [UInt8] {
    let inode = try inode(path, in: start, by: caller)
    let arguments = Message(fuse_getxattr_in(size: UInt32(capacity), padding: 0))
    return try device.ask(FUSE_LISTXATTR, of: inode.number, arguments, by: caller)
  }

  /// The kernel takes names of 1 to 255 bytes.
  private func checked(_ name: PathName) throws(Errno) -> PathName {
    guard (1...255).contains(name.bytes.count) else { throw .outOfRange }
    return name
  }
}

/// What a time is set to.
package struct InodeTime: Sendable, Equatable {
  package var seconds: Int64
  package var nanoseconds: Int64

  package init(seconds: Int64, nanoseconds: Int64 = 0) {
    self.seconds = seconds
    self.nanoseconds = nanoseconds
  }

  package static let now = InodeTime(seconds: 0, nanoseconds: 0x3fff_ffff)
  package static let omit = InodeTime(seconds: 0, nanoseconds: 0x3fff_fffe)

  /// The time that the kernel stamps files with.
  static var coarseNow: InodeTime {
    var time = timespec()
    unsafe clock_gettime(CLOCK_REALTIME_COARSE, &time)
    return InodeTime(seconds: Int64(time.tv_sec), nanoseconds: Int64(time.tv_nsec))
  }
}

extension fuse_setattr_in {
  mutating func setOwner(user: Int64, group: Int64) {
    if user >= 0 {
      valid |= UInt32(FATTR_UID)
      uid = UInt32(truncatingIfNeeded: user)
    }
    if group >= 0 {
      valid |= UInt32(FATTR_GID)
      gid = UInt32(truncatingIfNeeded: group)
    }
  }

  mutating func setTimes(access: InodeTime, modification: InodeTime) {
    if access != .omit {
      valid |= UInt32(FATTR_ATIME) | (access == .now ? UInt32(FATTR_ATIME_NOW) : 0)
      if access != .now { (atime, atimensec) = (UInt64(bitPattern: access.seconds), UInt32(access.nanoseconds)) }
    }
    if modification != .omit {
      valid |= UInt32(FATTR_MTIME)
      // The kernel keeps the modification time itself: it tells which time it means by now.
      let time = modification == .now ? InodeTime.coarseNow : modification
      (mtime, mtimensec) = (UInt64(bitPattern: time.seconds), UInt32(time.nanoseconds))
    }
  }
}
