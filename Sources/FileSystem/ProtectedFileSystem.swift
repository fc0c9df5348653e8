import BackingTree
import FUSE
import KeyManagement
import Logging
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage

/// The mounted tree, as the kernel asks for it: one file of handlers for each kind of request, on a ``BackingTree``.
package final class ProtectedFileSystem: LowLevelFileSystem {
  package let tree: BackingTree
  let observer: any FileSystemObserver
  package let kernelAttributes = KernelAttributes()
  /// How many writes of classes that are being taken away have completed.
  let pushes = Atomic<Int>(0)
  /// How often pages that the kernel wanted to write back were refused.
  let refusals = Atomic<Int>(0)

  /// Serves the tree below an open backing directory. The nodes of files that the kernel knows are among `files`.
  package init(
    backing: consuming Descriptor, volume: VolumeKeys, controller: LockController,
    observer: any FileSystemObserver, options: TreeOptions, files: SharedNumbers?, log: Logger
  ) throws(Errno) {
    self.observer = observer
    tree = try BackingTree(
      backing: backing, volume: volume, controller: controller, options: options, files: files, log: log,
      pagesAreStale: { observer.pagesAreStale(of: $0.id) })
  }

  /// The kernel may keep names and attributes that long, in seconds: for good while nobody else writes.
  var timeout: Double { tree.options.isShared ? 0 : 86_400 }

  /// The node that the kernel means.
  func node(_ id: NodeID) -> Node { tree.nodes.node(id.rawValue) }
}

extension Node {
  /// What the kernel calls the node.
  var id: NodeID { NodeID(rawValue: number) }
}

/// Who is told of what the file system refuses and finds.
package protocol FileSystemObserver: AnyObject, Sendable {
  /// A caller was refused because of a file's class. `code` is Foundation's: 257 for reading, 513 for writing.
  func accessDenied(code: Int, fileClass: ProtectionClass, path: String, inode: UInt64, process: Int32)
  /// The last handle of a class B file was closed while locked: the kernel's pages of it are to go.
  func pagesAreStale(of node: NodeID)
}

extension ProtectedFileSystem {
  /// Runs a request on contents, and tells the observer when its class was what refused it.
  func reportingDenial<Result: ~Copyable>(
    of operation: ProtectionPolicy.Operation, on node: Node, by caller: Caller,
    _ body: () throws(Errno) -> Result
  ) throws(Errno) -> Result {
    do throws(Errno) {
      return try body()
    } catch {
      if error == .permissionDenied { denied(operation, on: node, by: caller) }
      throw error
    }
  }

  /// Tells the observer of a refusal, if the class of the contents is its reason.
  func denied(_ operation: ProtectionPolicy.Operation, on node: Node, by caller: Caller) {
    reportDenial(of: operation, on: node, process: caller.process, path: tree.path(of: node))
  }

  func reportDenial(
    of operation: ProtectionPolicy.Operation, on node: Node, process: Int32, path: @autoclosure () -> String
  ) {
    let state = node.state.withLock { ($0.file?.fileClass ?? $0.cachedClass, $0.directory?.directoryClass) }
    guard let fileClass = state.0 ?? state.1, !tree.controller.allows(operation, on: fileClass) else { return }
    let code = operation == .open || operation == .read ? 257 : 513
    observer.accessDenied(
      code: code, fileClass: fileClass, path: path(), inode: node.identity.inode, process: process)
  }
}
