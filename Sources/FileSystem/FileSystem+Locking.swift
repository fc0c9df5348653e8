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
  /// The nodes whose pages the kernel may hold, of files in a class; those with open handles only if `includingOpen`.
  package func cachedNodes(in fileClass: ProtectionClass, includingOpen: Bool) -> [NodeID] {
    tree.nodes.cached(in: fileClass, includingOpen: includingOpen).map(NodeID.init)
  }

  /// The nodes of files in a class that are open.
  package func openNodes(in fileClass: ProtectionClass) -> [NodeID] {
    tree.nodes.open(in: fileClass).map(NodeID.init)
  }

  /// Those of them that are open for writing.
  package func writtenNodes(in fileClass: ProtectionClass) -> [NodeID] {
    tree.nodes.written(in: fileClass).map(NodeID.init)
  }

  /// The inode numbers of files in a class whose pages the kernel may hold, by node.
  package func inodes(in fileClass: ProtectionClass) -> [UInt64: UInt64] {
    tree.nodes.inodes(in: fileClass)
  }

  /// Wipes the keys of the open files of a class, once the operations that use them have ended, and all the same where they
  /// have not at a time of `MonotonicClock`. Returns whether they had.
  package func evictKeys(of fileClass: ProtectionClass, until nanoseconds: Int64) -> Bool {
    tree.openFiles.evict(fileClass, until: nanoseconds)
  }

  /// As ``BackingTree/renewRecords(within:)``.
  package func renewRecords(within patience: Duration) -> [NodeID] {
    tree.renewRecords(within: patience).map(NodeID.init)
  }

  /// How many writes of classes that are being taken away have completed.
  package var completedPushes: Int { pushes.load(ordering: .relaxed) }

  /// How often pages that the kernel wanted to write back were refused, so that it has them in the clear.
  package var refusedWriteBacks: Int { refusals.load(ordering: .sequentiallyConsistent) }
}

// What is refused without the store, which may not answer.
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
      if contents == .write { refusedWriteBack(to: request.node) }
      reportDenial(of: operation, on: node, process: request.process, path: tree.pathInMemory(of: node))
      return true
    }
  }

  /// Pages that were not written back stay with the kernel until they are dropped: a write(2) may have made them dirty after
  /// a lock had dropped what there was.
  func refusedWriteBack(to node: NodeID) {
    refusals.wrappingAdd(1, ordering: .sequentiallyConsistent)
    observer.pagesAreStale(of: node)
  }

}
