import CFUSE
import ProtectfsIO
import SystemPackage

/// Work to do after an answer. No caller waits for it.
package typealias ReadAhead = @Sendable () -> Void

/// A file system as libfuse's low-level interface calls it: one method for each kind of request.
///
/// Methods are called from several threads at once. Each returns the answer or throws the error for the caller.
/// ``Dispatch`` sends it after the method has returned, so no lock is held.
package protocol LowLevelFileSystem: AnyObject, Sendable {
  /// The kernel's cached attributes of nodes. The session registers itself here.
  var kernelAttributes: KernelAttributes { get }
  /// What a request waits for that finds no space.
  var forgets: PendingForgets { get }

  /// Whether it is not known now whether the store may be used.
  var mustWaitForStore: Bool { get }
  /// Waits until that is known. Throws `EIO` if the question fails.
  func waitForStore() throws(Errno)

  func lookup(_ name: PathName, in parent: NodeID) throws(Errno) -> Entry
  func forget(_ node: NodeID, count: UInt64)
  func attributes(
    of node: NodeID, handle: Handle?, caller: Caller
  ) throws(Errno) -> (Status, timeout: Double)
  func setAttributes(
    of node: NodeID, handle: Handle?, to changes: AttributeChanges, caller: Caller
  ) throws(Errno) -> (Status, timeout: Double)
  func readSymbolicLink(_ node: NodeID) throws(Errno) -> PathName

  func makeNode(
    _ name: PathName, in parent: NodeID, mode: UInt32, device: UInt64, caller: Caller
  ) throws(Errno) -> Entry
  func makeDirectory(_ name: PathName, in parent: NodeID, mode: UInt32, caller: Caller) throws(Errno) -> Entry
  func makeSymbolicLink(
    _ name: PathName, in parent: NodeID, target: PathName, caller: Caller
  ) throws(Errno) -> Entry
  func link(_ node: NodeID, as name: PathName, in parent: NodeID) throws(Errno) -> Entry
  func unlink(_ name: PathName, in parent: NodeID, caller: Caller) throws(Errno)
  func removeDirectory(_ name: PathName, in parent: NodeID) throws(Errno)
  func rename(
    _ name: PathName, in parent: NodeID, to newName: PathName, in newParent: NodeID, flags: RenameFlags,
    caller: Caller
  ) throws(Errno)

  func create(
    _ name: PathName, in parent: NodeID, mode: UInt32, flags: HandleFlags, caller: Caller
  ) throws(Errno) -> (Entry, Opened)
  func open(_ node: NodeID, flags: HandleFlags, caller: Caller) throws(Errno) -> Opened
  /// Reads up to `count` bytes into `buffer`, which is ``Session/room(for:in:)``. Returns the bytes, which are
  /// somewhere in it and wiped once sent; nothing else of a file may be left in it.
  func read(
    _ handle: Handle, of node: NodeID, at offset: UInt64, count: Int, into buffer: UnsafeMutableRawBufferPointer,
    flags: HandleFlags, caller: Caller
  ) throws(Errno) -> UnsafeRawBufferPointer
  /// Writes `bytes`. The method may overwrite them and the ``Worker/slack`` bytes behind them.
  func write(
    _ handle: Handle, of node: NodeID, at offset: UInt64, bytes: UnsafeMutableRawBufferPointer, flags: WriteFlags,
    caller: Caller
  ) throws(Errno) -> Int
  func release(_ handle: Handle, of node: NodeID, flags: HandleFlags)
  func synchronize(_ handle: Handle, dataOnly: Bool) throws(Errno)
  /// Whether ``flush(_:)`` is to be called where there is something to flush.
  var flushesOnClose: Bool { get }
  func mustFlush(_ handle: Handle) -> Bool
  /// A program closes a file, whose pages were written back.
  func flush(_ handle: Handle) throws(Errno)
  func allocate(
    _ handle: Handle, of node: NodeID, mode: AllocationMode, offset: UInt64, length: UInt64, caller: Caller
  ) throws(Errno)
  /// Whether a request on contents is refused now (EACCES). Answers from memory: it neither uses the store nor takes a
  /// lock that is held by a thread that waits for the store. Reports the refusal to the observer.
  func refuses(_ request: RequestHeader) -> Bool
  /// Whether a descriptor of the store is closed if the node is forgotten. Answers from memory, like ``refuses(_:)``.
  func holdsDescriptor(_ node: NodeID) -> Bool
  /// Whether the kernel may hold data of a node that it has not written back yet.
  func mayHaveDirtyPages(_ node: NodeID) -> Bool
  func seek(_ handle: Handle, to offset: UInt64, _ origin: SeekOrigin) throws(Errno) -> UInt64
  func copyRange(
    from source: Handle, of sourceNode: NodeID, at sourceOffset: UInt64,
    to target: Handle, of node: NodeID, at targetOffset: UInt64,
    count: Int, buffer: UnsafeMutableRawBufferPointer, caller: Caller
  ) throws(Errno) -> Int

  func openDirectory(_ node: NodeID, flags: HandleFlags) throws(Errno) -> Opened
  /// May return work to do after the answer, which speeds up further reads of the directory.
  func readDirectory(
    _ handle: Handle, from offset: UInt64, into listing: inout DirectoryListing
  ) throws(Errno) -> ReadAhead?
  func releaseDirectory(_ handle: Handle)
  func synchronizeDirectory(_ handle: Handle) throws(Errno)

  func fileSystemStatus() throws(Errno) -> FileSystemStatus
  func attribute(_ name: PathName, of node: NodeID, caller: Caller) throws(Errno) -> [UInt8]
  func setAttribute(
    _ name: PathName, of node: NodeID, to value: [UInt8], mode: AttributeMode, caller: Caller
  ) throws(Errno)
  /// The names, each terminated by a NUL.
  func attributeNames(of node: NodeID, caller: Caller) throws(Errno) -> [UInt8]
  func removeAttribute(_ name: PathName, of node: NodeID, caller: Caller) throws(Errno)
}

/// The flags of a write (`FUSE_WRITE_*` in linux/fuse.h).
package struct WriteFlags: OptionSet, Sendable {
  package let rawValue: UInt32

  package init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  /// Written back from the page cache; the caller is not known.
  package static let fromCache = WriteFlags(rawValue: UInt32(FUSE_WRITE_CACHE))
  /// The caller may not keep set-user-ID and set-group-ID bits.
  package static let clearsSetID = WriteFlags(rawValue: UInt32(FUSE_WRITE_KILL_SUIDGID))
}
