import FUSE
import ProtectfsIO
import SystemPackage

/// A file system whose handlers can be held up, as a store that does not answer holds them. It has any inode.
final class HeldFileSystem: LowLevelFileSystem {
  var mustWaitForStore: Bool { false }
  var flushesOnClose: Bool { false }
  func mustFlush(_ handle: Handle) -> Bool { false }
  func flush(_ handle: Handle) throws(Errno) {}
  func waitForStore() throws(Errno) {}
  struct State {
    /// Requests for these inodes wait.
    var held: Set<UInt64> = []
    /// How many wait.
    var waiting = 0
    /// Those that a lock refuses.
    var refused: Set<UInt64> = []
    var dirty: Set<UInt64> = []
    /// Those whose end closes a descriptor.
    var withDescriptor: Set<UInt64> = []
    /// What writes end with.
    var failure: Errno?
    /// What has been done, in order.
    var done: [String] = []
  }

  let kernelAttributes = KernelAttributes()
  let forgets = PendingForgets()
  let state = Monitor(.test, State())

  /// Holds requests for inodes up, or lets them go on.
  func hold(_ inodes: Set<UInt64>) { state.update { $0.held = inodes } }

  /// Returns when so many requests are held up.
  func waitUntilHeld(_ count: Int) {
    state.wait { (state, _) -> Void? in state.waiting >= count ? () : nil }
  }

  private func run(_ name: String, _ node: NodeID) {
    state.update { $0.waiting += 1 }
    state.wait { state, _ -> Void? in
      guard !state.held.contains(node.rawValue) else { return nil }
      state.waiting -= 1
      state.done.append("\(name) \(node.rawValue)")
      return ()
    }
  }

  private func attributes(_ node: NodeID) -> Status {
    var attributes = Status()
    attributes.inode = node.rawValue
    attributes.mode = 0o100600
    return attributes
  }

  private func entry(_ node: NodeID) -> Entry {
    Entry(node: node, attributes: attributes(node), entryTimeout: 0, attributeTimeout: 0)
  }

  func attributes(of node: NodeID, handle: Handle?, caller: Caller) throws(Errno) -> (Status, timeout: Double) {
    run("getattr", node)
    return (attributes(node), 0)
  }

  func read(
    _ handle: Handle, of node: NodeID, at offset: UInt64, count: Int, into buffer: UnsafeMutableRawBufferPointer,
    flags: HandleFlags, caller: Caller
  ) throws(Errno) -> UnsafeRawBufferPointer {
    run("read", node)
    for index in 0..<count { unsafe buffer[index] = UInt8(truncatingIfNeeded: Int(offset) + index) }
    return unsafe UnsafeRawBufferPointer(rebasing: buffer[..<count])
  }

  func write(
    _ handle: Handle, of node: NodeID, at offset: UInt64, bytes: UnsafeMutableRawBufferPointer, flags: WriteFlags,
    caller: Caller
  ) throws(Errno) -> Int {
    run("write of \(bytes.count)", node)
    if let failure = state.read({ $0.failure }) { throw failure }
    return bytes.count
  }

  func seek(_ handle: Handle, to offset: UInt64, _ origin: SeekOrigin) throws(Errno) -> UInt64 {
    run("seek", NodeID(rawValue: handle.rawValue))
    return offset + 1
  }

  func lookup(_ name: PathName, in parent: NodeID) throws(Errno) -> Entry {
    run("lookup", parent)
    return entry(NodeID(rawValue: 77))
  }

  func makeDirectory(_ name: PathName, in parent: NodeID, mode: UInt32, caller: Caller) throws(Errno) -> Entry {
    run("mkdir", NodeID(rawValue: 0))
    return entry(NodeID(rawValue: 78))
  }

  func forget(_ node: NodeID, count: UInt64) { state.update { $0.done.append("forget \(node.rawValue) × \(count)") } }
  func open(_ node: NodeID, flags: HandleFlags, caller: Caller) throws(Errno) -> Opened {
    run("open", node)
    return Opened(handle: Handle(rawValue: node.rawValue))
  }
  func release(_ handle: Handle, of node: NodeID, flags: HandleFlags) { run("release", node) }

  func refuses(_ request: RequestHeader) -> Bool { state.read { $0.refused.contains(request.node.rawValue) } }
  func holdsDescriptor(_ node: NodeID) -> Bool { state.read { $0.withDescriptor.contains(node.rawValue) } }
  func mayHaveDirtyPages(_ node: NodeID) -> Bool { state.read { $0.dirty.contains(node.rawValue) } }
}

// What no test asks for.
extension HeldFileSystem {
  func setAttributes(
    of node: NodeID, handle: Handle?, to changes: AttributeChanges, caller: Caller
  ) throws(Errno) -> (Status, timeout: Double) { throw .notSupported }
  func readSymbolicLink(_ node: NodeID) throws(Errno) -> PathName { throw .notSupported }
  func makeNode(
    _ name: PathName, in parent: NodeID, mode: UInt32, device: UInt64, caller: Caller
  ) throws(Errno) -> Entry { throw .notSupported }
  func makeSymbolicLink(
    _ name: PathName, in parent: NodeID, target: PathName, caller: Caller
  ) throws(Errno) -> Entry { throw .notSupported }
  func link(_ node: NodeID, as name: PathName, in parent: NodeID) throws(Errno) -> Entry { throw .notSupported }
  func unlink(_ name: PathName, in parent: NodeID, caller: Caller) throws(Errno) { throw .notSupported }
  func removeDirectory(_ name: PathName, in parent: NodeID) throws(Errno) { throw .notSupported }
  func rename(
    _ name: PathName, in parent: NodeID, to newName: PathName, in newParent: NodeID, flags: RenameFlags,
    caller: Caller
  ) throws(Errno) { throw .notSupported }
  func create(
    _ name: PathName, in parent: NodeID, mode: UInt32, flags: HandleFlags, caller: Caller
  ) throws(Errno) -> (Entry, Opened) { throw .notSupported }
  func synchronize(_ handle: Handle, dataOnly: Bool) throws(Errno) { throw .notSupported }
  func allocate(
    _ handle: Handle, of node: NodeID, mode: AllocationMode, offset: UInt64, length: UInt64, caller: Caller
  ) throws(Errno) { throw .notSupported }
  func copyRange(
    from source: Handle, of sourceNode: NodeID, at sourceOffset: UInt64,
    to target: Handle, of node: NodeID, at targetOffset: UInt64,
    count: Int, buffer: UnsafeMutableRawBufferPointer, caller: Caller
  ) throws(Errno) -> Int { throw .notSupported }
  func openDirectory(_ node: NodeID, flags: HandleFlags) throws(Errno) -> Opened { throw .notSupported }
  func readDirectory(
    _ handle: Handle, from offset: UInt64, into listing: inout DirectoryListing
  ) throws(Errno) -> ReadAhead? { throw .notSupported }
  func releaseDirectory(_ handle: Handle) {}
  func synchronizeDirectory(_ handle: Handle) throws(Errno) { throw .notSupported }
  func fileSystemStatus() throws(Errno) -> FileSystemStatus { throw .notSupported }
  func attribute(_ name: PathName, of node: NodeID, caller: Caller) throws(Errno) -> [UInt8] { throw .notSupported }
  func setAttribute(
    _ name: PathName, of node: NodeID, to value: [UInt8], mode: AttributeMode, caller: Caller
  ) throws(Errno) { throw .notSupported }
  func attributeNames(of node: NodeID, caller: Caller) throws(Errno) -> [UInt8] { throw .notSupported }
  func removeAttribute(_ name: PathName, of node: NodeID, caller: Caller) throws(Errno) { throw .notSupported }
}
