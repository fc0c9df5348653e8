import BackingTree
import FUSE
import ProtectfsIO
import StoreFormat
import SystemPackage

// What the kernel is answered of an inode.
extension ProtectedFileSystem {
  /// The attributes that a caller sees.
  func attributes(of node: Node, _ status: Status) -> Attributes {
    var attributes = Attributes()
    attributes.inode = status.inode
    attributes.mode = status.mode
    attributes.links = status.links
    attributes.user = status.user
    attributes.group = status.group
    attributes.rawDevice = status.raw_device
    attributes.blocks = status.blocks
    attributes.blockSize = 4096
    attributes.access = Timestamp(status.access_seconds, status.access_nanoseconds)
    attributes.modification = Timestamp(status.modification_seconds, status.modification_nanoseconds)
    attributes.change = Timestamp(status.change_seconds, status.change_nanoseconds)
    if node.isRegular {
      // A length that no plaintext can have is shown as it is; opening such a file fails.
      attributes.size = ContentLength.plaintext(for: status.size) ?? status.size
    } else if node.isSymbolicLink {
      attributes.size = tree.targetCount(of: node, status)
    } else {
      attributes.size = status.size
      // The store's own directory is in the root, and is not shown. Some file systems count no subdirectories.
      if node === tree.nodes.root, status.links > 2 { attributes.links -= 1 }
    }
    return attributes
  }

  /// The answer to the lookup of a backing file just seen.
  func entry(_ status: Status, at location: Node.Location) -> Entry {
    let node = tree.nodes.remember(status, at: location)
    return Entry(
      node: node.id, attributes: attributes(of: node, status), entryTimeout: timeout,
      attributeTimeout: attributeTimeout(of: node))
  }

  /// For how long the kernel may keep a node's attributes. Not at all while the class of an open file is locked: so the
  /// kernel asks before each cached write, and the write is refused.
  func attributeTimeout(of node: Node) -> Double {
    if let file = node.file, !file.isAllowed(.read) { return 0 }
    return timeout
  }
}

extension Timestamp {
  init(_ seconds: Int64, _ nanoseconds: UInt32) {
    self.init(seconds: seconds, nanoseconds: Int64(nanoseconds))
  }
}
