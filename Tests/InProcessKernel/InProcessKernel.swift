import CFUSE
import Glibc
import ProtectfsIO
import SystemPackage

/// What the Linux kernel does with a FUSE file system, in this process and without its caches: it follows paths, keeps
/// count of lookups, and sends each call to the daemon at once.
///
/// It is trusted by nobody: modes and ACLs, which the kernel checks, are checked by no one here; nor are there
/// mappings, locks of files, or a page cache. What depends on these is for a real mount.
package final class InProcessKernel: Sendable {
  package let device: DeviceSocket
  package let root: Inode

  /// Begins a connection (FUSE_INIT). Somebody must serve ``DeviceSocket/served`` by then.
  package init(_ device: DeviceSocket) throws(Errno) {
    self.device = device
    var root = fuse_entry_out()
    root.nodeid = UInt64(FUSE_ROOT_ID)
    root.attr.mode = FileType.directory
    self.root = Inode(root, in: nil, device)
    var arguments = fuse_init_in()
    arguments.major = UInt32(FUSE_KERNEL_VERSION)
    arguments.minor = UInt32(FUSE_KERNEL_MINOR_VERSION)
    arguments.max_readahead = UInt32(DeviceSocket.maximumTransfer)
    arguments.flags = Self.offered
    let answer = try device.ask(FUSE_INIT, of: 0, Message(arguments), by: .current).value(as: fuse_init_out.self)
    guard answer.major == UInt32(FUSE_KERNEL_VERSION), answer.flags & ~Self.offered == 0 else { throw .notSupported }
    accepted = answer.flags
  }

  /// What the daemon has asked for of ``offered``.
  package let accepted: UInt32

  /// What Linux 6.1 offers, but for what is about splicing.
  private static let offered = UInt32(
    FUSE_ASYNC_READ | FUSE_POSIX_LOCKS | FUSE_ATOMIC_O_TRUNC | FUSE_EXPORT_SUPPORT | FUSE_BIG_WRITES | FUSE_DONT_MASK
      | FUSE_FLOCK_LOCKS | FUSE_HAS_IOCTL_DIR | FUSE_AUTO_INVAL_DATA | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO
      | FUSE_ASYNC_DIO | FUSE_WRITEBACK_CACHE | FUSE_NO_OPEN_SUPPORT | FUSE_PARALLEL_DIROPS | FUSE_HANDLE_KILLPRIV
      | FUSE_POSIX_ACL | FUSE_ABORT_ERROR | FUSE_MAX_PAGES | FUSE_CACHE_SYMLINKS | FUSE_NO_OPENDIR_SUPPORT
      | FUSE_EXPLICIT_INVAL_DATA | FUSE_HANDLE_KILLPRIV_V2)

  /// Asks, and reads one structure from the answer.
  func ask<Value: BitwiseCopyable>(
    _ operation: fuse_opcode, of inode: Inode, _ arguments: Message = Message(), by caller: CallerIdentity,
    for type: Value.Type
  ) throws(Errno) -> Value {
    try device.ask(operation, of: inode.number, arguments, by: caller).value(as: type)
  }
}

/// The types of inodes in their modes (sys/stat.h).
enum FileType {
  static let mask: UInt32 = 0o170000
  static let regular: UInt32 = 0o100000
  static let directory: UInt32 = 0o040000
  static let symbolicLink: UInt32 = 0o120000
}
