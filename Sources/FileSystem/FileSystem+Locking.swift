import BackingTree
import FUSE
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

// What the lock sequence needs.
extension ProtectedFileSystem {
  /// The nodes of files in a class whose pages the kernel may hold. Nodes with open handles are included only if
  /// `includingOpen`.
  package func cachedNodes(in fileClass: ProtectionClass, includingOpen: Bool) -> [NodeID] {
    tree.nodes.cached(in: fileClass, includingOpen: includingOpen).map(NodeID.init)
  }

  /// The nodes of open files in a class.
  package func openNodes(in fileClass: ProtectionClass) -> [NodeID] {
    tree.nodes.open(in: fileClass).map(NodeID.init)
  }

  /// The nodes of files in a class that are open for writing.
  package func writtenNodes(in fileClass: ProtectionClass) -> [NodeID] {
    tree.nodes.writers(in: fileClass).map(\.id)
  }

  /// The paths of those files of classes, in a mount at `mountPoint`, as far as they are known without the store: not
  /// of files without a name, and of those with long ones.
  package func writtenPaths(in classes: [ProtectionClass], below mountPoint: String) -> [NodeID: PathName] {
    let nodes = classes.flatMap { tree.nodes.writers(in: $0) }
    let paths = nodes.compactMap { node in tree.pathInMemory(of: node, below: mountPoint).map { (node.id, $0) } }
    return Dictionary(paths) { $1 }
  }

  /// The inode numbers of files in a class whose pages the kernel may hold, by node.
  package func inodes(in fileClass: ProtectionClass) -> [UInt64: UInt64] {
    tree.nodes.inodes(in: fileClass)
  }

  /// Wipes the keys of the open files of a class when the operations that use them have ended, or at a time of
  /// `MonotonicClock` if they have not. Returns whether they had ended.
  package func evictKeys(of fileClass: ProtectionClass, until nanoseconds: Int64) -> Bool {
    tree.openFiles.evict(fileClass, until: nanoseconds)
  }

  /// Calls ``BackingTree/renewRecords(within:)``.
  package func renewRecords(within patience: Duration) -> [NodeID] {
    tree.renewRecords(within: patience).map(NodeID.init)
  }

  /// The number of completed write-backs to classes that are being locked.
  package var completedPushes: Int { pushes.load(ordering: .relaxed) }

  /// Returns, and forgets, the write-backs to such classes that have failed, by inode number.
  package func takeFailedPushes() -> [UInt64: (fileClass: ProtectionClass, error: Errno)] {
    failedPushes.withLock { failed in
      defer { failed = [:] }
      return failed
    }
  }

  /// The number of refused write-backs, after each of which the kernel still holds pages in the clear.
  package var refusedWriteBacks: Int { refusals.load(ordering: .sequentiallyConsistent) }
}

// Refusals that do not need the store, which may not respond.
extension ProtectedFileSystem {
  package func refuses(_ request: RequestHeader) -> Bool {
    guard let contents = request.contents else { return false }
    let node = node(request.node)
    let operation: ProtectionPolicy.Operation =
      switch contents {
      case .open: .open
      case .read, .copyRange, .attributes: .read
      case .write: .write
      case .resize, .allocate: .resize
      }
    do throws(Errno) {
      try tree.requireNotDenied(operation, on: node)
      return false
    } catch {
      if request.isWriteBack { refusedWriteBack(to: request.node) }
      reportDenial(of: operation, on: node, process: request.process, path: tree.pathInMemory(of: node))
      return true
    }
  }

  package func holdsDescriptor(_ node: NodeID) -> Bool { self.node(node).holdsDescriptor }

  /// The kernel keeps pages that were not written back until they are dropped. A write(2) may have made them dirty
  /// after a lock had dropped the previous pages.
  func refusedWriteBack(to node: NodeID) {
    refusals.wrappingAdd(1, ordering: .sequentiallyConsistent)
    observer.pagesAreStale(of: node)
  }

}
