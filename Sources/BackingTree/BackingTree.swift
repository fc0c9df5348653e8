import Contents
import Cryptography
import FileProtection
import KeyManagement
import Logging
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// A store's backing directory as a tree of nodes, with the names, records, classes and keys of its files in the clear.
///
/// Its user (``FileSystem``, for the kernel) asks by node. Errors are the `Errno` that a caller sees; ``errno(_:)``
/// turns other errors into one.
package final class BackingTree: Sendable {
  package let controller: LockController
  package let volume: VolumeKeys
  package let options: TreeOptions
  let recordSource: RecordSource
  package let root: SharedDescriptor
  package let nodes: InodeTable
  package let log: Logger
  let directories: DirectoryCache
  package let openFiles = OpenFileTable()
  package let fileReadAhead = FileReadAhead()
  /// Taken exclusively by a rename, until the nodes it moved are known under their new names.
  package let renames = ReaderWriterLock(.renames)
  /// Taken shared to wrap a file's key and write it into the file's record. Taken before the locks of nodes and files.
  package let keyChanges = ReaderWriterLock(.keyChanges)
  package let moves = MovedNames()
  package let vacated = VacatedNames()
  /// Files that wait for a rekey.
  let rekeys = RekeyQueue()
  /// By which the store is flushed before files become clean, in a store that has marks: an error of write-back is
  /// reported once to each open descriptor (fsync(2)).
  let flushing: SharedDescriptor?
  let maySayClean = Atomic(true)
  /// Whether a flush of the file system makes all files durable. Behind FUSE is another file system, or a server, which
  /// the kernel has nothing flushed by: there, each file is synchronised.
  let isSynchronizedWhole: Bool
  /// Files that were closed and are not clean yet.
  let closedFiles = RankedMutex<[ObjectIdentifier: ClosedFile]>(.rekeyQueue, [:])
  let rekeyJournal: RekeyJournal
  let unreplayed: UnreplayedBatches
  /// What is known of the backing file system's times.
  let keptTimes = Atomic(KeptTimes.unknown)
  /// Backing names that cannot be decoded. Each is reported once.
  package let undecodable = RankedMutex<Set<PathName>>(.undecodableNames, [])
  package let ownerPermissions: OwnerPermissions
  package let daemonIdentity = Process.identity
  /// Called when the kernel must drop its pages of a node, because the node's class is locked.
  let pagesAreStale: @Sendable (Node) -> Void

  /// Creates the tree below an open backing directory, and adds the nodes of files that the kernel knows to `files`.
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
    flushing =
      options.layout.isAuthenticated ? SharedDescriptor(try root.descriptor.open(".", [.readOnly, .directory])) : nil
    isSynchronizedWhole = root.descriptor.isSynchronizedWhole
    directories = DirectoryCache(capacity: options.directoryHandles)
    self.volume = volume
    self.controller = controller
    self.options = options
    recordSource = RecordSource(writers: options.writers)
    ownerPermissions = OwnerPermissions(mayAdd: options.writers.mayWrite, log: log)
    self.log = log
    self.pagesAreStale = pagesAreStale
    // Without a record of the root, files would have no class to inherit.
    _ = try directory(rootNode)
  }

  /// The number of names in the backing directory that do not belong to this store.
  package var undecodableNameCount: Int { undecodable.withLock { $0.count } }

  /// Logs a cryptographic failure and returns the error that a caller sees.
  package func errno(_ error: CryptographyError) -> Errno {
    log.error("cryptography failed", metadata: ["error": "\(error)"])
    return Errno(error)
  }

  /// Refuses a descriptor that a caller would keep open when few are left, so that no caller can keep the daemon from
  /// locking, and none who keeps files open can keep others from listing directories. open(2) returns the lowest free
  /// number, so the number shows how many are left.
  ///
  /// - Throws: `ENFILE`.
  package func requireRoom(for descriptor: borrowing Descriptor, isDirectory: Bool = false) throws(Errno) {
    let limit = options.firstReservedDescriptor
    guard descriptor.rawValue < (isDirectory ? limit : limit - min(64, limit / 8)) else {
      throw .tooManyOpenFilesInSystem
    }
  }
}

/// Options that a store is served with.
package struct TreeOptions: Sendable {
  /// The kernel caches nothing unless this process is the sole writer.
  package var writers = WriterState.sole
  /// How the store has the contents of files.
  package let layout: ContentsLayout
  /// A file that replaces a file of an explicit class, or gets the name that one has just left, takes over that class.
  package var keepsReplacedClass = true
  /// No file is removed if none of its class can be created.
  package var keepsLocked = true
  /// Holds what was looked up, if others may replace it.
  package var lookedUp: LookedUpFiles?
  /// The maximum number of backing directories kept open.
  package var directoryHandles = 512
  /// Descriptors from this number on are not available for what callers keep open.
  package var firstReservedDescriptor = CInt.max

  package init(layout: ContentsLayout) { self.layout = layout }
}
