import Cryptography
import FUSE
import FileProtection
import KeyManagement
import Logging
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// The mounted tree: names, attributes and contents of a backing directory, in the clear.
///
/// One extension a kind of request. Errors are the `Errno` that the caller sees; what comes from elsewhere becomes one
/// in ``errno(_:)``.
package final class ProtectedFileSystem: LowLevelFileSystem {
  let controller: LockController
  let volume: VolumeKeys
  let observer: any FileSystemObserver
  let options: FileSystemOptions
  let root: SharedDescriptor
  let nodes: InodeTable
  let directories: DirectoryCache
  let openFiles = OpenFileTable()
  /// Held alone from a rename until the nodes it moved are known at their new names.
  let renames = ReaderWriterLock()
  /// Shared by whoever wraps a file's key and writes it into its record. Taken before the locks of nodes and files.
  let keyChanges = ReaderWriterLock()
  let moves = MovedNames()
  package let kernelAttributes = KernelAttributes()
  /// Files that are to be brought under new keys.
  let rekeys = RekeyQueue()
  let rekeyJournal: RekeyJournal
  let unreplayed: UnreplayedBatches
  let log: Logger
  /// Backing names that decode to nothing, so that each is reported once.
  let undecodable = Mutex<Set<PathName>>([])
  /// Held while a file's mode is another than its owner set.
  let lending = Mutex<Void>(())
  /// How many writes of classes that are being taken away have completed.
  let pushes = Atomic<Int>(0)
  /// How often pages that the kernel wanted to write back were refused.
  let refusals = Atomic<Int>(0)
  let daemonIdentity: (user: UInt32, group: UInt32)

  /// Serves the tree below an open backing directory. The nodes of files that the kernel knows are among `files`.
  package init(
    backing: consuming Descriptor, volume: VolumeKeys, controller: LockController,
    observer: any FileSystemObserver, options: FileSystemOptions, files: SharedNumbers?, log: Logger
  ) throws(Errno) {
    let status = try backing.status()
    root = SharedDescriptor(backing)
    let rootNode = Node(status, location: nil)
    nodes = InodeTable(root: rootNode, files: files)
    rootNode.state.withLock { [root] in $0.handle = root }
    rekeyJournal = RekeyJournal(root: root, volume: volume)
    unreplayed = UnreplayedBatches(try rekeyJournal.batches())
    directories = DirectoryCache(capacity: options.directoryHandles)
    self.volume = volume
    self.controller = controller
    self.observer = observer
    self.options = options
    self.log = log
    daemonIdentity = Process.identity
    // A root without a record would leave every file without a class to inherit.
    _ = try directory(rootNode)
  }

  /// The kernel may keep names and attributes that long, in seconds: for good while nobody else writes.
  var timeout: Double { options.isShared ? 0 : 86_400 }
}

/// How a store is served.
package struct FileSystemOptions: Sendable {
  /// Others may write the backing directory too: the kernel caches nothing.
  package var isShared = false
  /// Nothing may be changed.
  package var isReadOnly = false
  /// A file that replaces one with an explicit class takes that class.
  package var keepsReplacedClass = true
  /// How many backing directories may stay open.
  package var directoryHandles = 512
  /// Descriptors from this number on are not for what callers keep open.
  package var firstReservedDescriptor = CInt.max

  package init() {}
}

/// Who is told of what the file system refuses and finds.
package protocol FileSystemObserver: AnyObject, Sendable {
  /// A caller was refused because of a file's class. `code` is Foundation's: 257 for reading, 513 for writing.
  func accessDenied(code: Int, fileClass: ProtectionClass, path: String, inode: UInt64, process: Int32)
  /// The last handle of a class B file was closed while locked: the kernel's pages of it are to go.
  func pagesAreStale(of node: NodeID)
}

extension ProtectedFileSystem {
  /// Refuses what a caller is to keep open where few descriptors are left: nobody may keep the daemon from taking a lock.
  /// The kernel gives the lowest number that is free (open(2)), so that the number tells.
  ///
  /// - Throws: `ENFILE`.
  func requireRoom(for descriptor: borrowing Descriptor) throws(Errno) {
    guard descriptor.rawValue < options.firstReservedDescriptor else { throw .tooManyOpenFilesInSystem }
  }
}

extension ProtectedFileSystem {
  /// Logs a failure of cryptography, and turns it into what a caller sees.
  func errno(_ error: CryptographyError) -> Errno {
    log.error("cryptography failed", metadata: ["error": "\(error)"])
    return Errno(error)
  }

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
    reportDenial(of: operation, on: node, process: caller.process, path: path(of: node))
  }

  func reportDenial(
    of operation: ProtectionPolicy.Operation, on node: Node, process: Int32, path: @autoclosure () -> String
  ) {
    let state = node.state.withLock { ($0.file?.fileClass ?? $0.cachedClass, $0.directory?.directoryClass) }
    guard let fileClass = state.0 ?? state.1, !controller.allows(operation, on: fileClass) else { return }
    let code = operation == .open || operation == .read ? 257 : 513
    observer.accessDenied(
      code: code, fileClass: fileClass, path: path(), inode: node.identity.inode, process: process)
  }
}
