import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage

/// Walks the backing tree for files with pending rekeys, and replays what an interrupted batch has of them.
final class RekeySearch: TreeVisitor {
  private let tree: BackingTree
  private let mayContinue: () -> Bool
  /// A daemon that was killed may have moved records before the journal goes, and not made that durable.
  private let synchronizesEach: Bool
  /// Whether everything could be examined.
  private(set) var isComplete = true

  package init(_ tree: BackingTree, mayContinue: @escaping () -> Bool) {
    self.tree = tree
    self.mayContinue = mayContinue
    synchronizesEach = !tree.unreplayed.isEmpty && !tree.isSynchronizedWhole
  }

  /// Searches the tree. It includes the files that a check moved out of it if a batch was left: they are not in use
  /// until someone moves them back, but their chunks are only in the journal.
  func run() {
    guard tree.moves.begin() else {
      isComplete = false
      return
    }
    defer { tree.moves.end() }
    do throws(Errno) {
      try tree.walk(self, includingLostAndFound: !tree.unreplayed.isEmpty)
      try tree.walkMoved(self)
    } catch {
      isComplete = false
      if error != .interrupted { report(error, at: tree.nodes.root) }
    }
  }

  func goOn(isDirectoryDone: Bool) throws(Errno) {
    guard mayContinue() else { throw .interrupted }
  }

  func visit(_ name: PathName, in directory: SharedDescriptor, _ file: Node) throws(Errno) {
    do throws(Errno) {
      guard let record = try record(of: name, in: directory) else { return }
      if record.pending == nil, !synchronizesEach { return }
      // By this name: those that the node knows may be gone. In the table, so that it is the node that requests have.
      let file = tree.nodes.keep(file)
      defer { tree.nodes.forget(file, count: 1) }
      let path = try tree.ownerPermissions.ensuring(on: directory.descriptor) { () throws(Errno) in
        try directory.descriptor.open(name, [.path, .noFollow])
      }
      if synchronizesEach {
        do throws(Errno) { try tree.synchronize(path) } catch {
          // One that the walk finds by no name has nothing to lose.
          guard error.isOfARemovedFile, try !directory.descriptor.exists(name) else { throw error }
          return
        }
      }
      if record.pending == nil { return }
      _ = try tree.replayed(record, of: path, file)
      tree.awaitRekey(of: file)
    } catch {
      failed(error, at: file)
    }
  }

  /// Records and logs a failure, unless the name is gone: then so is the file, or the walk finds it by another name.
  func failed(_ error: Errno, at node: Node) {
    // What is mounted in the store is none of it.
    guard error != .noSuchFileOrDirectory, error != .improperLink else { return }
    isComplete = false
    report(error, at: node)
  }

  private func report(_ error: Errno, at node: Node) {
    tree.log.warning(
      "pending rekeys cannot be searched for",
      metadata: ["error": "\(error)", "inode": "\(node.identity.inode)"])
  }

  /// The record of a file; `nil` for a file that has none, such as a sidecar, or a damaged one.
  private func record(of name: PathName, in handle: SharedDescriptor) throws(Errno) -> FileRecord? {
    let bytes: [UInt8]
    do throws(Errno) { bytes = try tree.recordBytes(of: name, in: handle) } catch .noData { return nil }
    let length = try tree.options.layout.markedLength(of: bytes) { () throws(Errno) in
      try handle.descriptor.status(of: name).size
    }
    guard let record = try? FileRecord(parsing: bytes, length: length) else { return nil }
    do throws(CryptographyError) {
      return try tree.volume.isAuthentic(record) ? record : nil
    } catch {
      throw tree.errno(error)
    }
  }
}
