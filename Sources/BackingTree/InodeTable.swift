import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The nodes that the kernel knows. A lookup of a name finds them by inode and device number.
///
/// A backing file may be replaced without the kernel's knowledge: by another host, or by the copy that an overlay makes
/// of a file in its lower layer when that is first written. The node of the old file then lives on beside that of the
/// new one, since the kernel may have pages of it.
///
/// A node lives from its first lookup until the kernel forgets it. The kernel holds the node's address meanwhile, so
/// the table's own reference is counted by hand.
package final class InodeTable: Sendable {
  private let shards: [Shard]
  package let root: Node
  /// The nodes of files, for the unmounter, which drops their pages if this process is killed.
  private let files: SharedNumbers?

  package init(root: Node, files: SharedNumbers?) {
    self.root = root
    self.files = files
    shards = (0..<16).map { _ in Shard() }
  }

  /// The node with a number.
  package func node(_ number: UInt64) -> Node {
    if number == 1 { return root }
    let address = unsafe UnsafeRawPointer(bitPattern: UInt(number))!
    return unsafe Unmanaged<Node>.fromOpaque(address).takeUnretainedValue()
  }

  /// Returns the node of a backing file that was found at a location, and counts one more lookup.
  package func remember(_ status: Status, at location: Node.Location) -> Node {
    let identity = Node.Identity(status)
    let node = shard(of: identity).nodes.withLock { nodes in
      if let known = nodes.find(identity) {
        unsafe known.lookups += 1
        return known
      }
      let node = Node(status, location: location)
      unsafe node.lookups = 1
      // Balanced by the release in `forget`.
      unsafe _ = Unmanaged.passRetained(node)
      nodes.add(node)
      givePlace(to: node)
      return node
    }
    node.moved(to: location, hasOtherNames: status.links > 1 && !node.isDirectory)
    if node.isDirectory { node.state.withLock { $0.setsGroup = status.mode & 0o2000 != 0 } }
    return node
  }

  /// The node of a backing file, if the kernel knows it.
  package func find(_ status: Status) -> Node? {
    let identity = Node.Identity(status)
    if identity == root.identity { return root }
    return shard(of: identity).nodes.withLock { $0.find(identity) }
  }

  /// Pins the node of a file that will be worked on, until ``forget(_:count:)`` releases it. Returns the known node of
  /// the file if there is another.
  func keep(_ node: Node) -> Node {
    shard(of: node.identity).nodes.withLock { nodes in
      if let known = nodes.find(node.identity) {
        unsafe known.lookups += 1
        return known
      }
      unsafe node.lookups = 1
      unsafe _ = Unmanaged.passRetained(node)
      nodes.add(node)
      givePlace(to: node)
      return node
    }
  }

  /// Adds a file to those whose pages are dropped if the daemon is killed. The caller holds the shard's lock.
  private func givePlace(to node: Node) {
    guard node.isRegular, unsafe node.place == nil else { return }
    unsafe node.place = files?.add(node.number)
  }

  /// Releases `count` lookups for the kernel. The node is freed when none is left.
  package func forget(_ node: Node, count: UInt64) {
    guard !node.isRoot else { return }
    let isLast = shard(of: node.identity).nodes.withLock { nodes in
      // What the kernel forgets too often has been freed.
      guard unsafe node.lookups > 0 else { return false }
      unsafe node.lookups -= min(count, node.lookups)
      guard unsafe node.lookups == 0 else { return false }
      nodes.remove(node)
      if let place = unsafe node.place {
        files?.remove(place)
        unsafe node.place = nil
      }
      return true
    }
    guard isLast else { return }
    // Closed without the node's lock.
    node.state.removing { ($0.handle.take(), $0.unlinked.take()) }
    unsafe Unmanaged.passUnretained(node).release()
  }

  /// The nodes of files in a class whose pages the kernel may hold. Nodes with open handles are included only if
  /// `includingOpen`.
  package func cached(in fileClass: ProtectionClass, includingOpen: Bool) -> [UInt64] {
    nodes { $0.cachedClass == fileClass && (includingOpen || $0.handles == 0) }
  }

  /// The nodes of open files in a class.
  package func open(in fileClass: ProtectionClass) -> [UInt64] {
    nodes { $0.cachedClass == fileClass && $0.handles > 0 }
  }

  /// The nodes of files in a class that are open for writing, as references.
  package func writers(in fileClass: ProtectionClass) -> [Node] {
    collect({ $0.cachedClass == fileClass && $0.writers > 0 }, { $0 })
  }

  /// The inode numbers, by node, of the files that ``cached(in:includingOpen:)`` finds, open or not.
  package func inodes(in fileClass: ProtectionClass) -> [UInt64: UInt64] {
    // A number may be found twice: a node that was forgotten since, and another at its address.
    Dictionary(collect({ $0.cachedClass == fileClass }, { ($0.number, $0.identity.inode) })) { _, later in later }
  }

  /// The nodes of files that are open or have no name, as references that keep the nodes alive.
  func openOrUnlinked() -> [Node] {
    collect({ $0.handles > 0 || $0.unlinked != nil }, { $0 }).filter(\.isRegular)
  }

  /// The nodes of all open files, as references.
  func openNodes() -> [Node] { collect({ $0.handles > 0 }, { $0 }) }

  /// The nodes of files of any class that are not open and whose pages the kernel may hold.
  func closedAndCached() -> [UInt64] { nodes { $0.cachedClass != nil && $0.handles == 0 } }

  private func nodes(where isWanted: (borrowing Node.State) -> Bool) -> [UInt64] {
    collect(isWanted, \.number)
  }

  private func collect<Element>(
    _ isWanted: (borrowing Node.State) -> Bool, _ element: (Node) -> Element
  ) -> [Element] {
    var found: [Element] = []
    for shard in shards {
      shard.nodes.withLock { nodes in
        for node in nodes.current.values where node.state.withLock({ isWanted($0) }) { found.append(element(node)) }
        for node in nodes.replaced.values where node.state.withLock({ isWanted($0) }) { found.append(element(node)) }
      }
    }
    return found
  }

  /// The number of nodes that the kernel knows.
  package var count: Int { shards.reduce(0) { $0 + $1.nodes.withLock { $0.current.count + $0.replaced.count } } }

  private func shard(of identity: Node.Identity) -> Shard { shards[Int(truncatingIfNeeded: identity.inode) & 15] }
}

private final class Shard: Sendable {
  struct Nodes {
    /// By ``Node/Identity/key``.
    private(set) var current: [UInt64: Node] = [:]
    /// Nodes whose place another node has taken, since their backing files were replaced. Usually there are none.
    private(set) var replaced: [Node.Identity: Node] = [:]

    func find(_ identity: Node.Identity) -> Node? {
      if let node = current[identity.key], node.identity == identity { return node }
      return replaced.isEmpty ? nil : replaced[identity]
    }

    mutating func add(_ node: Node) {
      guard let other = current.updateValue(node, forKey: node.identity.key) else { return }
      replaced[other.identity] = other
    }

    mutating func remove(_ node: Node) {
      if current[node.identity.key] === node {
        current[node.identity.key] = nil
      } else {
        replaced[node.identity] = nil
      }
    }
  }

  let nodes = RankedMutex(.inodeShard, Nodes())
}
