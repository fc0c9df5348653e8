import ProtectfsIO
import SystemPackage

/// A file or directory in a stand-in, opened without access.
struct StandInItem {
  /// What a file is known by: an inode number alone is used again as soon as a file is removed.
  struct Identity: Hashable {
    let inode: UInt64
    let birthSeconds: Int64
    let birthNanoseconds: UInt32
  }

  private let opened: SharedDescriptor
  let status: Status

  /// - Parameter path: a symbolic link is followed only if it is one of `/proc`.
  init(_ path: PathName) throws(Errno) {
    opened = SharedDescriptor(try Descriptor.open(path, [.path]))
    status = try opened.descriptor.status()
  }

  /// What a descriptor of the process is opened as.
  init(descriptor: CInt) throws(Errno) {
    try self.init(PathName("/proc/self/fd/\(descriptor)"))
  }

  /// Something in a directory.
  init(_ name: PathName, in directory: StandInItem) throws(Errno) {
    opened = SharedDescriptor(try directory.opened.descriptor.open(name, [.path, .noFollow]))
    status = try opened.descriptor.status()
  }

  var identity: Identity {
    Identity(
      inode: status.inode, birthSeconds: status.birth_seconds, birthNanoseconds: status.birth_nanoseconds)
  }

  var isRegular: Bool { status.type == .regular }
  var isDirectory: Bool { status.type == .directory }

  /// A path for calls that take no descriptor of this kind.
  var path: PathName { PathName(descriptor: opened.descriptor) }

  /// The directory that contains it.
  var parent: StandInItem {
    get throws(Errno) {
      let path = try path.canonical().bytes
      guard let slash = path.lastIndex(of: UInt8(ascii: "/")) else { throw .noSuchFileOrDirectory }
      return try StandInItem(PathName(bytes: path[..<slash] + [UInt8(ascii: "/")]))
    }
  }

  /// The names in a directory.
  func names() throws(Errno) -> [PathName] {
    try opened.descriptor.names()
  }

  func setMode(_ mode: UInt32) throws(Errno) {
    try opened.descriptor.setModeThroughPath(mode)
  }

  /// Runs `body`; if the owner has no permission for what it does, once more with that permission.
  ///
  /// - Parameter own: the permissions that the item has afterwards.
  func withOwnerPermissions<Result>(
    leaving own: UInt32, _ body: () throws(Errno) -> Result
  ) throws(Errno) -> Result {
    do throws(Errno) {
      return try body()
    } catch .permissionDenied {
      try setMode(own | (isDirectory ? 0o700 : 0o600))
    }
    let result: Result
    do throws(Errno) {
      result = try body()
    } catch {
      try setMode(own)
      throw error
    }
    try setMode(own)
    return result
  }

  /// Whether access(2) permits something to this user, had the item these permissions.
  func permits(_ access: UInt32, with permissions: UInt32) -> Bool {
    let user = ProtectfsIO.Process.identity
    let shift: UInt32 = status.user == user.user ? 6 : status.group == user.group ? 3 : 0
    return permissions >> shift & access == access
  }
}
