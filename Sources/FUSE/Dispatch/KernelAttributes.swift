import CFUSE
import Synchronization

/// The attributes that the kernel keeps of nodes, mode and times among them: as long as it was told that it may, and
/// nobody says that they have changed below it.
package final class KernelAttributes: Sendable {
  /// The session, once it is there.
  private let session = Atomic<UInt>(0)

  package init() {}

  func began(_ session: OpaquePointer) {
    self.session.store(UInt(bitPattern: session), ordering: .relaxed)
  }

  /// Makes the kernel ask for a node's attributes before it uses them again, and pass over answers on their way to it, which
  /// may be from before (`attr_version` in fs/fuse/inode.c). It keeps the pages, so that nothing is waited for: a handler
  /// calls this when it has made a change, before it answers.
  package func invalidate(_ node: NodeID) {
    guard let session = unsafe OpaquePointer(bitPattern: session.load(ordering: .relaxed)) else { return }
    // That the kernel does not know the node is no error, and there is no other to be told of here.
    _ = unsafe fuse_lowlevel_notify_inval_inode(session, node.rawValue, -1, 0)
  }
}
