import CSystemCalls
import Glibc
import ProtectfsIO
import SystemPackage

// The calls of the tables. Each is the system call of its name.
extension Step {
  init(_ call: calls_call, _ name: String, _ path: PathName?, _ numbers: Int64...) {
    self.init(call: call, name: name, path: path, numbers: numbers)
  }

  private init(_ call: calls_call, _ name: String, _ path: PathName?, to other: PathName?, _ flags: Int64) {
    self.init(call: call, name: name, path: path, other: other, numbers: [flags])
  }

  static func chmod(_ path: PathName?, _ mode: Int64) -> Step { Step(CALL_CHMOD, "chmod", path, mode) }
  static func chown(_ path: PathName?, _ user: Int64, _ group: Int64) -> Step {
    Step(CALL_CHOWN, "chown", path, user, group)
  }
  static func lchown(_ path: PathName?, _ user: Int64, _ group: Int64) -> Step {
    Step(CALL_LCHOWN, "lchown", path, user, group)
  }
  static func give(_ path: PathName, to identity: Identity) -> Step {
    lchown(path, Int64(identity.user), Int64(identity.group))
  }
  static func mkdir(_ path: PathName?, _ mode: Int64 = 0o755) -> Step { Step(CALL_MKDIR, "mkdir", path, mode) }
  static func rmdir(_ path: PathName?) -> Step { Step(CALL_RMDIR, "rmdir", path) }
  static func unlink(_ path: PathName?, _ flags: Int64 = 0) -> Step { Step(CALL_UNLINK, "unlink", path, flags) }
  static func mkfifo(_ path: PathName?, _ mode: Int64 = 0o644) -> Step { Step(CALL_MKFIFO, "mkfifo", path, mode) }
  static func mknod(_ path: PathName?, _ mode: Int64, device: Int64 = 0) -> Step {
    Step(CALL_MKNOD, "mknod", path, mode, device)
  }
  /// Makes a socket by bind(2).
  static func bind(_ path: PathName) -> Step { Step(CALL_BIND, "bind", path) }
  static func symlink(_ path: PathName?, to target: PathName?) -> Step {
    Step(call: CALL_SYMLINK, name: "symlink", path: path, other: target)
  }
  static func readlink(_ path: PathName?, capacity: Int = 4096) -> Step {
    Step(call: CALL_READLINK, name: "readlink", path: path, capacity: capacity)
  }
  static func link(_ path: PathName?, as name: PathName?, flags: Int64 = 0) -> Step {
    Step(CALL_LINK, "link", path, to: name, flags)
  }
  static func rename(_ path: PathName?, to name: PathName?, flags: Int64 = 0) -> Step {
    Step(CALL_RENAME, "rename", path, to: name, flags)
  }
  static func truncate(_ path: PathName?, _ length: Int64) -> Step { Step(CALL_TRUNCATE, "truncate", path, length) }
  static func access(_ path: PathName?, _ mode: Int64, effective: Bool = true) -> Step {
    Step(CALL_ACCESS, "access", path, mode, effective ? 0x200 : 0)
  }
  static func stat(_ path: PathName?) -> Step { Step(CALL_STAT, "stat", path) }
  static func lstat(_ path: PathName?) -> Step { Step(CALL_LSTAT, "lstat", path) }
  static func statfs(_ path: PathName?) -> Step { Step(CALL_STATFS, "statfs", path) }
  static func chdir(_ path: PathName?) -> Step { Step(CALL_CHDIR, "chdir", path) }
  /// Reads a directory through, and counts its entries.
  static func list(_ path: PathName?) -> Step { Step(CALL_LIST, "list", path) }

  static let now = Time(seconds: 0, nanoseconds: 0x3fff_ffff)
  static let omit = Time(seconds: 0, nanoseconds: 0x3fff_fffe)

  struct Time: Sendable {
    var seconds: Int64
    var nanoseconds: Int64 = 0
  }

  static func utimens(_ path: PathName?, _ access: Time, _ modification: Time, flags: Int64 = 0x100) -> Step {
    Step(
      CALL_UTIMENS, "utimens", path, flags, access.seconds, access.nanoseconds, modification.seconds,
      modification.nanoseconds)
  }
  static func futimens(_ access: Time, _ modification: Time) -> Step {
    Step(
      CALL_FUTIMENS, "futimens", nil, 0, access.seconds, access.nanoseconds, modification.seconds,
      modification.nanoseconds)
  }

  // Extended attributes.
  static func setxattr(_ path: PathName?, _ name: PathName?, _ value: [UInt8], flags: Int64 = 0) -> Step {
    Step(call: CALL_SETXATTR, name: "setxattr", path: path, other: name, numbers: [flags], data: value)
  }
  static func getxattr(_ path: PathName?, _ name: PathName?, capacity: Int = 65_536) -> Step {
    Step(call: CALL_GETXATTR, name: "getxattr", path: path, other: name, capacity: capacity)
  }
  static func listxattr(_ path: PathName?, capacity: Int = 65_536) -> Step {
    Step(call: CALL_LISTXATTR, name: "listxattr", path: path, capacity: capacity)
  }
  static func removexattr(_ path: PathName?, _ name: PathName?) -> Step {
    Step(call: CALL_REMOVEXATTR, name: "removexattr", path: path, other: name)
  }

  // Open files.
  static func open(_ path: PathName?, _ flags: CInt, _ mode: Int64 = 0o644) -> Step {
    Step(CALL_OPEN, "open", path, Int64(flags), mode)
  }
  /// Makes a file, and closes it.
  static func make(_ path: PathName, _ mode: Int64 = 0o644) -> Step { mknod(path, Int64(S_IFREG) | mode) }
  static var close: Step { Step(CALL_CLOSE, "close", nil) }
  static func read(at offset: Int64, _ count: Int) -> Step {
    Step(call: CALL_PREAD, name: "pread", numbers: [offset], capacity: count)
  }
  static func write(_ bytes: [UInt8], at offset: Int64) -> Step {
    Step(call: CALL_PWRITE, name: "pwrite", numbers: [offset], data: bytes)
  }
  static func append(_ bytes: [UInt8]) -> Step { Step(call: CALL_WRITE, name: "write", data: bytes) }
  static func mapRead(at offset: Int64, _ count: Int, isPrivate: Bool = false) -> Step {
    Step(call: CALL_MAP_READ, name: "map and read", numbers: [offset, isPrivate ? 1 : 0], capacity: count)
  }
  static func mapWrite(_ bytes: [UInt8], at offset: Int64, isPrivate: Bool = false) -> Step {
    Step(call: CALL_MAP_WRITE, name: "map and write", numbers: [offset, isPrivate ? 1 : 0], data: bytes)
  }
  static func ftruncate(_ length: Int64) -> Step { Step(CALL_FTRUNCATE, "ftruncate", nil, length) }
  static func fallocate(_ mode: Int64, _ offset: Int64, _ length: Int64) -> Step {
    Step(CALL_FALLOCATE, "fallocate", nil, mode, offset, length)
  }
  static func posixFallocate(_ offset: Int64, _ length: Int64) -> Step {
    Step(CALL_POSIX_FALLOCATE, "posix_fallocate", nil, offset, length)
  }
  static func fchmod(_ mode: Int64) -> Step { Step(CALL_FCHMOD, "fchmod", nil, mode) }
  static func fchown(_ user: Int64, _ group: Int64) -> Step { Step(CALL_FCHOWN, "fchown", nil, user, group) }
  static var fstat: Step { Step(CALL_FSTAT, "fstat", nil) }
  static var fsync: Step { Step(CALL_FSYNC, "fsync", nil) }
  static var fdatasync: Step { Step(CALL_FDATASYNC, "fdatasync", nil) }
  static func seek(_ offset: Int64, _ whence: Int64) -> Step { Step(CALL_SEEK, "lseek", nil, offset, whence) }
  static var getdents: Step { Step(call: CALL_GETDENTS, name: "getdents", capacity: 4096) }
  /// Copies from slot 0 into slot 1.
  static func copy(_ from: Int64, to: Int64, _ count: Int64, flags: Int64 = 0) -> Step {
    Step(call: CALL_COPY, name: "copy_file_range", numbers: [0, from, to, count, flags], otherSlot: 1)
  }
}
