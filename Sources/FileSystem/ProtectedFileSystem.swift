import BackingTree
import FUSE
import KeyManagement
import Logging
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage

/// The mounted tree, as the kernel asks for it: a ``BackingTree`` with one file of handlers for each kind of request.
package final class ProtectedFileSystem: LowLevelFileSystem {
  package let tree: BackingTree
  let observer: any FileSystemObserver
  package let kernelAttributes = KernelAttributes()
  package let forgets = PendingForgets()
  package let hold = StoreHold()
  /// The number of completed write-backs from the kernel to classes that are being locked. A program that writes past
  /// the cache all the time does not count: a lock would wait for it.
  let pushes = Atomic<Int>(0)
  /// The write-backs from the kernel to such classes that the store failed, by inode number: the kernel has dropped
  /// these pages.
  let failedPushes = RankedMutex(.refusals, [UInt64: (fileClass: ProtectionClass, error: Errno)]())
  /// The number of write-backs from the kernel that were refused.
  let refusals = Atomic<Int>(0)

  /// Serves the tree below an open backing directory, and adds the nodes of files that the kernel knows to `files`.
  package init(
    backing: consuming Descriptor, volume: VolumeKeys, controller: LockController,
    observer: any FileSystemObserver, options: TreeOptions, files: SharedNumbers?, log: Logger
  ) throws(Errno) {
    self.observer = observer
    tree = try BackingTree(
      backing: backing, volume: volume, controller: controller, options: options, files: files, log: log,
      pagesAreStale: { observer.pagesAreStale(of: $0.id) })
  }

  /// How long the kernel may keep names and inode attributes, in seconds: practically forever, unless others write the
  /// store.
  var timeout: Double { tree.options.writers == .sole ? 86_400 : 0 }

  package var mustWaitForStore: Bool { !hold.isValid }

  package func waitForStore() throws(Errno) { try hold.wait() }

  /// The node with the kernel's number.
  func node(_ id: NodeID) -> Node { tree.nodes.node(id.rawValue) }
}

extension Node {
  /// The kernel's number of the node.
  var id: NodeID { NodeID(rawValue: number) }
}

/// Receives notice of refusals by the file system, and of pages that the kernel must drop.
package protocol FileSystemObserver: AnyObject, Sendable {
  /// A caller was refused because of a file's class. `code` is Foundation's: 257 for reading, 513 for writing.
  func accessDenied(code: Int, fileClass: ProtectionClass, path: String, inode: UInt64, process: Int32)
  /// The kernel must drop its pages of a node, because they belong to a locked class: the last handle of a class B file
  /// was closed while locked, for example.
  func pagesAreStale(of node: NodeID)
}

extension ProtectedFileSystem {
  /// Runs a request on contents. Reports to the observer if the file's class was the reason for a refusal, and logs
  /// damage.
  ///
  /// - Parameter range: what is to be read or written.
  func reportingDenial<Result: ~Copyable>(
    of operation: ProtectionPolicy.Operation, on node: Node, inClass found: ProtectionClass? = nil, by caller: Caller,
    in range: Range<UInt64>? = nil, _ body: () throws(Errno) -> Result
  ) throws(Errno) -> Result {
    do throws(Errno) {
      return try body()
    } catch {
      throw reported(error, of: operation, on: node, inClass: found, by: caller, in: range)
    }
  }

  /// The same for a change to a class, which that of the file can refuse, or the new one.
  func reportingDenial(
    ofClass new: ProtectionClass, for node: Node, by caller: Caller, _ body: () throws(Errno) -> Void
  ) throws(Errno) {
    let isRefused = node.isRegular && !tree.controller.allows(.rewrapTo, on: new)
    try reportingDenial(
      of: isRefused ? .rewrapTo : .rewrapFrom, on: node, inClass: isRefused ? new : nil, by: caller, body)
  }

  /// The same for a request that has failed; what to answer.
  func reported(
    _ error: Errno, of operation: ProtectionPolicy.Operation, on node: Node, inClass found: ProtectionClass? = nil,
    by caller: Caller, in range: Range<UInt64>? = nil
  ) -> Errno {
    if error == .permissionDenied { denied(operation, on: node, of: found, by: caller) }
    return tree.answer(to: error, of: node, in: range)
  }

  /// Reports a refusal to the observer, if the class of the contents is the reason: that of the node, or one that was
  /// found on disk.
  func denied(
    _ operation: ProtectionPolicy.Operation, on node: Node, of found: ProtectionClass? = nil, by caller: Caller
  ) {
    reportDenial(of: operation, on: node, of: found, process: caller.process, path: tree.path(of: node))
  }

  func reportDenial(
    of operation: ProtectionPolicy.Operation, on node: Node, of found: ProtectionClass? = nil, process: Int32,
    path: @autoclosure () -> String
  ) {
    let state = node.state.withLock { ($0.file?.fileClass ?? $0.cachedClass, $0.directory?.directoryClass) }
    guard let fileClass = found ?? state.0 ?? state.1, !tree.controller.allows(operation, on: fileClass) else { return }
    let code = operation == .open || operation == .read ? 257 : 513
    observer.accessDenied(
      code: code, fileClass: fileClass, path: path(), inode: node.identity.inode, process: process)
  }
}
