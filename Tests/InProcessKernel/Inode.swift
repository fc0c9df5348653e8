import CFUSE
import Glibc
import ProtectfsIO
import SystemPackage

/// An inode that the daemon was asked for, and is told to forget with the last reference to this.
package final class Inode: Sendable {
  package let number: UInt64
  /// Its attributes when it was looked up.
  package let attributes: fuse_attr
  /// The directory in which it was found; the root is its own.
  let parent: Inode?
  private let device: DeviceSocket

  init(_ entry: fuse_entry_out, in parent: Inode?, _ device: DeviceSocket) {
    number = entry.nodeid
    attributes = entry.attr
    self.parent = parent
    self.device = device
  }

  deinit {
    if number != UInt64(FUSE_ROOT_ID) {
      device.tell(FUSE_FORGET, of: number, Message(fuse_forget_in(nlookup: 1)))
    }
  }

  /// A type of ``FileType``.
  package var type: UInt32 { attributes.mode & FileType.mask }
  package var isDirectory: Bool { type == FileType.directory }
  package var isSymbolicLink: Bool { type == FileType.symbolicLink }
}

/// An open file or directory, closed with its last reference.
package final class OpenInode: Sendable {
  package let inode: Inode
  let handle: UInt64
  let flags: CInt
  let caller: CallerIdentity
  let kernel: InProcessKernel

  init(_ inode: Inode, handle: UInt64, flags: CInt, by caller: CallerIdentity, _ kernel: InProcessKernel) {
    self.inode = inode
    self.handle = handle
    self.flags = flags
    self.caller = caller
    self.kernel = kernel
  }

  deinit {
    var arguments = fuse_release_in()
    arguments.fh = handle
    arguments.flags = UInt32(bitPattern: flags)
    let operation = inode.isDirectory ? FUSE_RELEASEDIR : FUSE_RELEASE
    // close(2) has nothing to say of it.
    _ = try? kernel.device.ask(operation, of: inode.number, Message(arguments), by: caller)
  }
}
