import Cryptography
import FileProtection
import KeyManagement
import Logging
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// A store's backing directory as a tree of nodes: names, records, classes and keys of files, in the clear.
///
/// Whoever serves it (``FileSystem`` to the kernel) asks by node. Errors are the `Errno` that a caller sees; what comes
/// from elsewhere becomes one in ``errno(_:)``.
package final class BackingTree: Sendable {
  package let controller: LockController
  package let volume: VolumeKeys
  package let options: TreeOptions
  package let root: SharedDescriptor
  package let nodes: InodeTable
  package let log: Logger
  let directories: DirectoryCache
  package let openFiles = OpenFileTable()
  /// Held alone from a rename until the nodes it moved are known at their new names.
  package let renames = ReaderWriterLock()
  /// Shared by whoever wraps a file's key and writes it into its record. Taken before the locks of nodes and files.
  package let keyChanges = ReaderWriterLock()
  package let moves = MovedNames()
  /// Files that are to be brought under new keys.
  let rekeys = RekeyQueue()
  let rekeyJournal: RekeyJournal
  let unreplayed: UnreplayedBatches
  /// Backing names that decode to nothing, so that each is reported once.
  package let undecodable = Mutex<Set<PathName>>([])
  /// Held while a file's mode is another than its owner set.
  let lending = Mutex<Void>(())
  package let daemonIdentity = Process.identity
  /// Told that the kernel's pages of a node are to go, as its class is locked.
  let pagesAreStale: @Sendable (Node) -> Void

  /// The tree below an open backing directory. The nodes of files that the kernel knows are among `files`.
  package init(
    backing: consuming Descriptor, volume: VolumeKeys, controller: LockController, options: TreeOptions,
    files: SharedNumbers?, log: Logger, pagesAreStale: @escaping @Sendable (Node) -> Void
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
    self.options = options
    self.log = log
    self.pagesAreStale = pagesAreStale
    // A root without a record would leave every file without a class to inherit.
    _ = try directory(rootNode)
  }

  /// How many names in the backing directory were found to be none of this store's.
  package var undecodableNameCount: Int { undecodable.withLock { $0.count } }

  /// Logs a failure of cryptography, and turns it into what a caller sees.
  package func errno(_ error: CryptographyError) -> Errno {
    log.error("cryptography failed", metadata: ["error": "\(error)"])
    return Errno(error)
  }

  /// Refuses what a caller is to keep open where few descriptors are left: nobody may keep the daemon from taking a lock.
  /// The kernel gives the lowest number that is free (open(2)), so that the number tells.
  ///
  /// - Throws: `ENFILE`.
  package func requireRoom(for descriptor: borrowing Descriptor) throws(Errno) {
    guard descriptor.rawValue < options.firstReservedDescriptor else { throw .tooManyOpenFilesInSystem }
  }
}

/// How a store is served.
package struct TreeOptions: Sendable {
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
