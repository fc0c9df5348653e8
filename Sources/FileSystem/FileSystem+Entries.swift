import BackingTree
import Contents
import FUSE
import ProtectfsIO
import SystemPackage

// Replies to the kernel about an inode.
extension ProtectedFileSystem {
  /// The inode attributes that a caller sees.
  func attributes(of node: Node, _ status: Status) -> Status {
    var attributes = status
    attributes.block_size = 4096
    // The layers of an overlay, and subvolumes of Btrfs, number their inodes each for itself.
    if !tree.nodes.root.isOnSameDevice(as: node) { attributes.inode = node.identity.key }
    if node.isRegular {
      // A length that no plaintext can have is shown unchanged. Opening such a file fails.
      attributes.size = tree.options.layout.length(ofBacking: status.size) ?? status.size
      attributes.modificationTime = tree.shownTime(of: node, status)
    } else if node.isSymbolicLink {
      attributes.size = tree.targetCount(of: node, status)
    } else {
      // The root contains the store's own directory, which is not shown. Some file systems do not count subdirectories.
      if node === tree.nodes.root, status.links > 2 { attributes.links -= 1 }
    }
    return attributes
  }

  /// The reply to a lookup that found a backing file.
  ///
  /// - Throws: `EXDEV` for something that is mounted there.
  func entry(_ status: Status, at location: Node.Location) throws(Errno) -> Entry {
    try tree.requireNoMount(status, at: location)
    return entry(of: tree.nodes.remember(status, at: location), status)
  }

  /// The reply that makes a node known to the kernel once more.
  func entry(of node: Node, _ status: Status) -> Entry {
    Entry(
      node: node.id, generation: node.generation, attributes: attributes(of: node, status), entryTimeout: timeout,
      attributeTimeout: attributeTimeout(of: node))
  }

  /// How long the kernel may keep a node's attributes, in seconds: not at all while the class of an open file is
  /// locked. The kernel then sends GETATTR before each cached write, and the write is refused.
  func attributeTimeout(of node: Node) -> Double {
    if let file = node.file, !file.isAllowed(.read) { return 0 }
    return timeout
  }

  /// The same in the answers to CREATE, LINK and SETATTR. The kernel (for SETATTR, before Linux 6.17) takes their
  /// attributes also when a lock has had it forget the file's before they came. So for a file that a lock closes, it
  /// has to send GETATTR before the next write(2).
  func timeoutAfterChange(of node: Node) -> Double {
    let fileClass = node.state.withLock { $0.cachedClass }
    if let fileClass, fileClass.losesKey, !fileClass.keepsOpenFiles { return 0 }
    return attributeTimeout(of: node)
  }
}
