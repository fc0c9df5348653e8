import FUSE
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

// What the lock sequence needs.
extension ProtectedFileSystem {
  /// The nodes whose pages the kernel may hold, of files in a class; those with open handles only if `includingOpen`.
  package func cachedNodes(in fileClass: ProtectionClass, includingOpen: Bool) -> [NodeID] {
    nodes.cached(in: fileClass, includingOpen: includingOpen)
  }

  /// The nodes of files in a class that are open.
  package func openNodes(in fileClass: ProtectionClass) -> [NodeID] {
    nodes.open(in: fileClass)
  }

  /// Those of them that are open for writing.
  package func writtenNodes(in fileClass: ProtectionClass) -> [NodeID] {
    nodes.written(in: fileClass)
  }

  /// The inode numbers of files in a class whose pages the kernel may hold, by node.
  package func inodes(in fileClass: ProtectionClass) -> [NodeID: UInt64] {
    nodes.inodes(in: fileClass)
  }

  /// Wipes the keys of the open files of a class, once the operations that use them have ended, and all the same where they
  /// have not at a time of `MonotonicClock`. Returns whether they had.
  package func evictKeys(of fileClass: ProtectionClass, until nanoseconds: Int64) -> Bool {
    openFiles.evict(fileClass, until: nanoseconds)
  }

  /// How many writes of classes that are being taken away have completed.
  package var completedPushes: Int { pushes.load(ordering: .relaxed) }

  /// How often pages that the kernel wanted to write back were refused, so that it has them in the clear.
  package var refusedWriteBacks: Int { refusals.load(ordering: .sequentiallyConsistent) }

  /// How many files of each class are open.
  package var openFileCounts: [ProtectionClass: Int] { openFiles.counts }
}

// What is refused without the store, which may not answer.
extension ProtectedFileSystem {
  /// Refuses an operation on contents that the class of a closed file does not allow, when the kernel knows the file and its
  /// class key is still one of the keybag's. Everything else the store has to tell.
  ///
  /// - Throws: `EACCES`.
  func requireNotDenied(_ operation: ProtectionPolicy.Operation, on node: Node) throws(Errno) {
    guard !options.isShared else { return }
    let (fileClass, keyID) = node.state.withLock { ($0.cachedClass, $0.cachedKeyID) }
    guard let fileClass, let keyID, !controller.allows(operation, on: fileClass) else { return }
    if case .ifKeyHeld = controller.access(for: operation, on: fileClass) { return }
    if controller.knowsKey(keyID, of: fileClass) { throw .permissionDenied }
  }

  package func refuses(_ request: RequestHeader) -> Bool {
    guard let contents = request.contents else { return false }
    let node = nodes.node(request.node)
    let operation: ProtectionPolicy.Operation =
      switch contents {
      case .open: .open
      case .read, .copyRange, .attributes: .read
      case .write: .write
      case .resize, .allocate: .resize
      }
    do throws(Errno) {
      try requireNotDenied(operation, on: node)
      return false
    } catch {
      if contents == .write { refusedWriteBack(to: request.node) }
      reportDenial(of: operation, on: node, process: request.process, path: pathInMemory(of: node))
      return true
    }
  }

  /// Pages that were not written back stay with the kernel until they are dropped: a write(2) may have made them dirty after
  /// a lock had dropped what there was.
  func refusedWriteBack(to node: NodeID) {
    refusals.wrappingAdd(1, ordering: .sequentiallyConsistent)
    observer.pagesAreStale(of: node)
  }

  /// A node's path as ``path(of:)`` tells it, but without the store: names that it is needed for are shown as `?`.
  private func pathInMemory(of node: Node) -> String {
    var names: [String] = []
    var current = node
    while let location = current.location {
      names.append(nameInMemory(location)?.description ?? "?")
      current = location.parent
    }
    return "/" + names.reversed().joined(separator: "/")
  }

  private func nameInMemory(_ location: Node.Location) -> PathName? {
    guard let record = location.parent.state.withLock({ $0.directory }),
      case .direct(let sealed) = NameEncoding.parse(location.name.bytes)
    else { return nil }
    return volume.entryName(sealed, in: record.identifier)
  }
}
