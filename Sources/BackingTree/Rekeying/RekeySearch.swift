import ProtectfsIO
import StoreFormat
import SystemPackage

/// Walks the backing tree for files with pending rekeys, and replays what an interrupted batch has of them.
final class RekeySearch {
  private let tree: BackingTree
  private let mayContinue: () -> Bool
  /// Whether everything could be examined.
  private(set) var isComplete = true

  package init(_ tree: BackingTree, mayContinue: @escaping () -> Bool) {
    self.tree = tree
    self.mayContinue = mayContinue
  }

  /// Searches the tree, and the files that a check moved out of it.
  func run() {
    guard tree.moves.begin() else {
      isComplete = false
      return
    }
    defer { tree.moves.end() }
    visit(tree.nodes.root)
    visitLostAndFound()
    while let moved = tree.renames.write({ tree.moves.next() }) { visit(moved) }
  }

  private func visit(_ root: Node) {
    var waiting = [root]
    while let directory = waiting.popLast() {
      attempt(directory) { () throws(Errno) in
        let handle = try tree.directoryHandle(directory)
        let names = try DirectoryNames(tree.openForListing(handle)).all(limit: .max)
        for name in names where !(directory.isRoot && name.description == NameEncoding.storeDirectory) {
          if let below = look(name, in: handle, .init(parent: directory, name: name)) { waiting.append(below) }
        }
      }
    }
  }

  private func visit(_ location: Node.Location) {
    attempt(location.parent) { () throws(Errno) in
      let handle = try tree.directoryHandle(location.parent)
      if let below = look(location.name, in: handle, location) { visit(below) }
    }
  }

  /// Files in lost+found are not in use until someone moves them back, but their chunks are only in the journal.
  private func visitLostAndFound() {
    guard !tree.unreplayed.isEmpty else { return }
    let store = PathName(NameEncoding.storeDirectory)
    guard let handle = try? tree.root.descriptor.open(store, [.path, .directory, .noFollow]),
      let status = try? handle.status(of: "lost+found")
    else { return }
    let parent = Node(status, location: .init(parent: Node(status, location: nil), name: "lost+found"))
    attempt(parent) { () throws(Errno) in
      parent.state.withLock { [handle = SharedDescriptor(try handle.open("lost+found", [.readOnly, .directory]))] in
        $0.handle = handle
      }
      visit(parent)
    }
  }

  /// Examines a name. Returns its node if it is a directory.
  private func look(_ name: PathName, in handle: SharedDescriptor, _ location: Node.Location) -> Node? {
    guard mayContinue() else {
      isComplete = false
      return nil
    }
    var below: Node?
    attempt(location.parent) { () throws(Errno) in
      let status = try tree.lendingPermissions(of: handle.descriptor) { () throws(Errno) in
        try handle.descriptor.status(of: name)
      }
      let node = tree.nodes.find(status) ?? Node(status, location: location)
      if status.type == .directory { below = node }
      guard status.type == .regular, let record = try record(of: name, in: handle), record.pending != nil else {
        return
      }
      _ = try tree.replayed(record, node)
      tree.awaitRekey(of: node)
    }
    return below
  }

  /// The record of a file; `nil` for a file that has none, such as a sidecar, or a damaged one.
  private func record(of name: PathName, in handle: SharedDescriptor) throws(Errno) -> FileRecord? {
    let bytes: [UInt8]
    do throws(Errno) { bytes = try tree.recordBytes(of: name, in: handle) } catch .noData { return nil }
    guard let record = try? FileRecord(parsing: bytes), (try? tree.volume.isAuthentic(record)) == true else {
      return nil
    }
    return record
  }

  /// Runs `body` and logs its failure, unless something was removed meanwhile.
  private func attempt(_ node: Node, _ body: () throws(Errno) -> Void) {
    do throws(Errno) {
      try body()
    } catch {
      guard ![.noSuchFileOrDirectory, .staleNFSFileHandle, .noData].contains(error) else { return }
      isComplete = false
      tree.log.warning(
        "rekeys that are pending cannot be searched for",
        metadata: ["error": "\(error)", "inode": "\(node.identity.inode)"])
    }
  }
}
