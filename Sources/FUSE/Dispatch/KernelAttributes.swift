import CFUSE
import Synchronization

/// The attributes of nodes that the kernel caches, mode and times among them. The kernel uses them until their timeout,
/// unless they are invalidated.
package final class KernelAttributes: Sendable {
  /// The session, once it exists.
  private let session = Atomic<UInt>(0)

  package init() {}

  func began(_ session: OpaquePointer) {
    self.session.store(UInt(bitPattern: session), ordering: .relaxed)
  }

  /// Invalidates the attributes of a node. The kernel requests them before it uses them again, and ignores answers on
  /// their way to it, which may be older (`attr_version` in fs/fuse/inode.c).
  ///
  /// The kernel keeps the pages, so this does not wait. A handler calls it after a change and before the answer.
  package func invalidate(_ node: NodeID) {
    guard let session = unsafe OpaquePointer(bitPattern: session.load(ordering: .relaxed)) else { return }
    // It is no error if the kernel does not know the node, and no other error can be reported here.
    _ = unsafe fuse_lowlevel_notify_inval_inode(session, node.rawValue, -1, 0)
  }
}
