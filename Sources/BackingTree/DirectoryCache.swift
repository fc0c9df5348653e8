import ProtectfsIO
import SystemPackage

/// A bounded number of open backing directories, and of files whose known names are gone. A new one replaces the
/// oldest, which is closed.
final class DirectoryCache: Sendable {
  private struct Ring {
    var nodes: [Node?]
    var next = 0
  }

  private let ring: RankedMutex<Ring>

  package init(capacity: Int) {
    ring = RankedMutex(.directoryCache, Ring(nodes: Array(repeating: nil, count: capacity)))
  }

  /// Keeps a handle in its node until it is the oldest.
  func keep(_ handle: SharedDescriptor, for node: Node) {
    let isNew = node.state.withLock { state in
      guard state.handle == nil else { return false }
      state.handle = handle
      return true
    }
    guard isNew else { return }
    let oldest = ring.withLock { ring in
      let oldest = ring.nodes[ring.next]
      ring.nodes[ring.next] = node
      ring.next = (ring.next + 1) % ring.nodes.count
      return oldest
    }
    // Closed without the node's lock.
    if let oldest, oldest !== node { oldest.state.removing { $0.handle.take() } }
  }
}
