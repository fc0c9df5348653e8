import CFUSE
import Synchronization

/// The number of requests of each kind that the kernel has sent: the cost of an operation in a unit that is the same on
/// every machine.
package final class RequestCounts: Sendable {
  private static let names: [fuse_opcode: String] = [
    FUSE_LOOKUP: "lookup", FUSE_FORGET: "forget", FUSE_GETATTR: "getattr", FUSE_SETATTR: "setattr",
    FUSE_READLINK: "readlink", FUSE_SYMLINK: "symlink", FUSE_MKNOD: "mknod", FUSE_MKDIR: "mkdir", FUSE_UNLINK: "unlink",
    FUSE_RMDIR: "rmdir", FUSE_RENAME: "rename", FUSE_LINK: "link", FUSE_OPEN: "open", FUSE_READ: "read",
    FUSE_WRITE: "write", FUSE_STATFS: "statfs", FUSE_RELEASE: "release", FUSE_FSYNC: "fsync", FUSE_SETXATTR: "setxattr",
    FUSE_GETXATTR: "getxattr", FUSE_LISTXATTR: "listxattr", FUSE_REMOVEXATTR: "removexattr", FUSE_FLUSH: "flush",
    FUSE_INIT: "init", FUSE_OPENDIR: "opendir", FUSE_READDIR: "readdir", FUSE_RELEASEDIR: "releasedir",
    FUSE_FSYNCDIR: "fsyncdir", FUSE_ACCESS: "access", FUSE_CREATE: "create", FUSE_INTERRUPT: "interrupt",
    FUSE_DESTROY: "destroy", FUSE_IOCTL: "ioctl", FUSE_POLL: "poll", FUSE_BATCH_FORGET: "batch_forget",
    FUSE_FALLOCATE: "fallocate", FUSE_READDIRPLUS: "readdirplus", FUSE_RENAME2: "rename2", FUSE_LSEEK: "lseek",
    FUSE_COPY_FILE_RANGE: "copy_file_range", FUSE_SYNCFS: "syncfs", FUSE_TMPFILE: "tmpfile",
  ]

  private let counts = InlineArray<64, Atomic<Int>> { _ in Atomic(0) }

  /// Whether requests come through rings (``RequestRings``), and not from the device.
  package let usesRings = Atomic(false)

  package init() {}

  func count(_ operation: fuse_opcode) {
    counts[Int(operation.rawValue & 63)].wrappingAdd(1, ordering: .relaxed)
  }

  /// How many there were of all kinds.
  var total: Int { (0..<64).reduce(0) { $0 + counts[$1].load(ordering: .relaxed) } }

  /// The counts by operation, without those that are zero.
  package var byName: [String: Int] {
    var result: [String: Int] = [:]
    for number in 0..<64 {
      let count = counts[number].load(ordering: .relaxed)
      if count > 0 { result[Self.names[fuse_opcode(rawValue: UInt32(number))] ?? "opcode \(number)"] = count }
    }
    return result
  }
}
