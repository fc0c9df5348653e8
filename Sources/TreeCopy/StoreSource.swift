import BackingTree
import Contents
import FUSE
import FileSystem
import KeyManagement
import Logging
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// A store that is copied from without a mount: what serves mounts is asked here, and only to read.
///
/// Backing files keep their modes: what this user may not read by these, is not read.
package final class StoreSource: Sendable {
  /// How much is decrypted at once, in bytes.
  fileprivate static let chunk = 1 << 20

  fileprivate let fileSystem: ProtectedFileSystem
  fileprivate let device: UInt64
  fileprivate let caller: Caller

  /// - Parameter opened: the store's keybag; of its keys only copies are kept.
  /// - Throws: `KeyManagementError`, or an error of cryptography or of the system.
  package init(backing: consuming Descriptor, _ opened: borrowing OpenKeybag) throws {
    let controller = LockController(keybag: opened.keybag, noneKeys: [])
    for (fileClass, keys) in try opened.heldKeys(of: ProtectionClass.allCases) {
      controller.install(keys, for: fileClass)
    }
    for fileClass in ProtectionClass.allCases { controller.setAvailability(.available, of: fileClass) }
    controller.lockState = .unlocked
    var options = TreeOptions(layout: ContentsLayout(of: opened.keybag.record, in: backing))
    options.writers = .reading
    // Most descriptors are for what is copied at the same time.
    options.directoryHandles = max(16, min(512, Int(Process.openFileLimit / 4)))
    device = try backing.status().device
    caller = Caller.own
    fileSystem = try ProtectedFileSystem(
      backing: backing, volume: opened.volumeKeys(), controller: controller, observer: Observer(), options: options,
      files: nil, log: Logger(label: "protectfs.copy") { _ in SwiftLogNoOpLogHandler() })
  }

  /// The root of the tree.
  package var root: any SourceItem { StoreItem(self, .root) }

  /// Nobody is told of refusals: there is no daemon.
  private final class Observer: FileSystemObserver {
    func accessDenied(code: Int, fileClass: ProtectionClass, path: String, inode: UInt64, process: Int32) {}
    func pagesAreStale(of node: NodeID) {}
  }
}

/// What a store has under a name; known by a lookup, which is undone with this value.
private final class StoreItem: SourceItem {
  private let source: StoreSource
  private let node: NodeID
  /// Of a file that was opened.
  private let handle: Handle?

  /// What the file system needs beside a piece: the rest of the data units at its ends.
  private static let slack = 8192
  private static let flags = HandleFlags(rawValue: OpenFlags.keepAccessTime.rawValue)

  init(_ source: StoreSource, _ node: NodeID, handle: Handle? = nil) {
    self.source = source
    self.node = node
    self.handle = handle
  }

  deinit {
    if let handle { source.fileSystem.release(handle, of: node, flags: Self.flags) }
    if node != .root { source.fileSystem.forget(node, count: 1) }
  }

  var holdsDescriptor: Bool { handle != nil }

  func status() throws(Errno) -> Status {
    var (status, _) = try source.fileSystem.attributes(of: node, handle: nil, caller: source.caller)
    status.device = source.device
    return status
  }

  func attributeNames() throws(Errno) -> SourceNames {
    var names = SourceNames()
    let list = try source.fileSystem.attributeNames(of: node, caller: source.caller) { names.undecodable.append($0) }
    names.usable = list.split(separator: 0).map(PathName.init(bytes:))
    return names
  }

  func attribute(_ name: PathName) throws(Errno) -> [UInt8] {
    try source.fileSystem.attribute(name, of: node, caller: source.caller)
  }

  func names() throws(Errno) -> SourceNames {
    var names = SourceNames()
    names.usable = try source.fileSystem.names(of: node) { names.undecodable.append($0) }
    return names
  }

  func item(_ name: PathName) throws(Errno) -> any SourceItem { StoreItem(source, try known(name).node) }

  func file(_ name: PathName) throws(Errno) -> any SourceItem {
    let entry = try known(name)
    do throws(Errno) {
      let opened = try source.fileSystem.open(entry.node, flags: Self.flags, caller: source.caller)
      return StoreItem(source, entry.node, handle: opened.handle)
    } catch {
      source.fileSystem.forget(entry.node, count: 1)
      throw error
    }
  }

  private func known(_ name: PathName) throws(Errno) -> Entry {
    let entry = try source.fileSystem.lookup(name, in: node)
    guard entry.node.rawValue != 0 else { throw .noSuchFileOrDirectory }
    return entry
  }

  func linkTarget() throws(Errno) -> PathName { try source.fileSystem.readSymbolicLink(node) }

  func read(into target: UnsafeMutableRawBufferPointer, at position: UInt64) throws(Errno) -> Int {
    guard let handle else { throw .badFileDescriptor }
    // Where the file system decrypts.
    let buffer = AlignedBuffer(count: min(target.count, StoreSource.chunk) + Self.slack)
    var done = 0
    while done < target.count {
      let bytes = try unsafe source.fileSystem.read(
        handle, of: node, at: position + UInt64(done), count: min(StoreSource.chunk, target.count - done),
        into: buffer.bytes, flags: Self.flags, caller: source.caller)
      if unsafe bytes.isEmpty { break }
      unsafe UnsafeMutableRawBufferPointer(rebasing: target[done...]).copyMemory(from: bytes)
      done += bytes.count
    }
    return done
  }

  func seek(to position: UInt64, _ origin: SeekOrigin) throws(Errno) -> UInt64 {
    guard let handle else { throw .badFileDescriptor }
    return try source.fileSystem.seek(handle, to: position, origin)
  }
}
