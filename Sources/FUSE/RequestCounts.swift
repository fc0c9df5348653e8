import Synchronization

/// How many requests of each kind the kernel has sent: what an operation costs, in the one measure that is the same on
/// every machine.
package final class RequestCounts: Sendable {
  /// Opcodes (`enum fuse_opcode` in linux/fuse.h) with the names of the operations.
  private static let names: [Int: String] = [
    1: "lookup", 2: "forget", 3: "getattr", 4: "setattr", 5: "readlink", 6: "symlink", 8: "mknod", 9: "mkdir",
    10: "unlink", 11: "rmdir", 12: "rename", 13: "link", 14: "open", 15: "read", 16: "write", 17: "statfs",
    18: "release", 20: "fsync", 21: "setxattr", 22: "getxattr", 23: "listxattr", 24: "removexattr", 25: "flush",
    26: "init", 27: "opendir", 28: "readdir", 29: "releasedir", 30: "fsyncdir", 34: "access", 35: "create",
    36: "interrupt", 38: "destroy", 39: "ioctl", 40: "poll", 42: "batch_forget", 43: "fallocate", 44: "readdirplus",
    45: "rename2", 46: "lseek", 47: "copy_file_range", 50: "syncfs", 51: "tmpfile", 52: "statx",
  ]

  private let counts = InlineArray<64, Atomic<Int>> { _ in Atomic(0) }

  package init() {}

  func count(_ opcode: UInt32) {
    counts[Int(opcode & 63)].wrappingAdd(1, ordering: .relaxed)
  }

  /// The counts by operation, without those that have not come.
  package var byName: [String: Int] {
    var result: [String: Int] = [:]
    for opcode in 0..<64 {
      let count = counts[opcode].load(ordering: .relaxed)
      if count > 0 { result[Self.names[opcode] ?? "opcode \(opcode)"] = count }
    }
    return result
  }
}
