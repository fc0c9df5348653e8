import BackingTree
import Cryptography
import FileSystem
import Glibc
import KeyManagement
import Logging
import ProtectfsIO
import ProtectfsPolicy
import SimulatedDisk
import StoreFormat
import SystemPackage

@testable import FUSE

/// A file system on a simulated disk that is asked on the calling thread, with all classes available.
final class SimulatedMount {
  /// The keys of a store, and the disk that it begins with.
  struct Store: Sendable {
    let controller: LockController
    let volume: VolumeKeys
    let image: DiskImage

    init() throws {
      let storeID = try StoreID.random()
      let deviceKey = try VolumeDeviceKey(
        deviceKey: SecretBytes([UInt8](repeating: 5, count: 32)), storeID: storeID)
      let new = try Keybag.create(
        passcode: SecretBytes(Array("passcode".utf8)), deviceKey: deviceKey, storeID: storeID, eraseAfter: nil,
        cost: ScryptParameters(logN: 16, r: 8, p: 1))
      let volume = try VolumeKeys(deviceKey, storeID: storeID)
      let disk = SimulatedDisk()
      controller = try disk.run {
        let backing = try SimulatedMount.backing()
        try KeybagFile.makeDirectory(in: backing)
        let file = try KeybagFile(backing: backing)
        try file.commit(new.change)
        try BackingTree.writeRootRecord(to: backing, defaultClass: .standard, volume: volume)
        try backing.synchronizeFileSystem()
        let controller = LockController(
          keybag: new.keybag,
          noneKeys: try new.keybag.noneClassKeys(
            deviceKey: deviceKey, effaceable: file.effaceableSecret(of: new.keybag)))
        let opened = try file.open(
          new.keybag, with: .recoveryKey(new.recoveryKey.text()), deviceKey: deviceKey)
        for (fileClass, held) in try opened.heldKeys(of: ProtectionClass.allCases) {
          controller.install(held, for: fileClass)
          controller.setAvailability(ProtectionPolicy.keyAvailability(of: fileClass, in: .unlocked), of: fileClass)
        }
        return controller
      }
      self.volume = volume
      image = disk.image
    }
  }

  private final class Observer: FileSystemObserver {
    func accessDenied(code: Int, fileClass: ProtectionClass, path: String, inode: UInt64, process: Int32) {}
    func pagesAreStale(of node: NodeID) {}
  }

  private let fileSystem: ProtectedFileSystem

  static func backing() throws(Errno) -> Descriptor {
    try Descriptor.open(SimulatedDisk.path, [.readOnly, .directory])
  }

  init(_ store: Store) throws {
    fileSystem = try ProtectedFileSystem(
      backing: Self.backing(), volume: store.volume, controller: store.controller, observer: Observer(),
      options: TreeOptions(), files: nil, log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
  }

  // MARK: Calls, by names in the topmost directory

  private func entry(_ name: String) throws(Errno) -> Entry {
    let entry = try fileSystem.lookup(PathName(name), in: .root)
    // What the kernel remembers as missing.
    guard entry.node.rawValue != 0 else { throw .noSuchFileOrDirectory }
    return entry
  }

  /// Opens a file for `body`.
  private func with<Result>(
    _ name: String, _ body: (NodeID, Handle) throws(Errno) -> Result
  ) throws(Errno) -> Result {
    let node = try entry(name).node
    let flags = HandleFlags(rawValue: O_RDWR)
    let handle = try fileSystem.open(node, flags: flags, caller: .own).handle
    defer { fileSystem.release(handle, of: node, flags: flags) }
    return try body(node, handle)
  }

  func create(_ name: String, _ contents: [UInt8]) throws(Errno) {
    let flags = HandleFlags(rawValue: O_RDWR | O_CREAT | O_EXCL)
    let (entry, opened) = try fileSystem.create(
      PathName(name), in: .root, mode: 0o100600, flags: flags, caller: .own)
    defer { fileSystem.release(opened.handle, of: entry.node, flags: flags) }
    try write(contents, at: 0, entry.node, opened.handle)
  }

  func write(_ bytes: [UInt8], at offset: UInt64, to name: String) throws(Errno) {
    try with(name) { (node, handle) throws(Errno) in try write(bytes, at: offset, node, handle) }
  }

  private func write(_ bytes: [UInt8], at offset: UInt64, _ node: NodeID, _ handle: Handle) throws(Errno) {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count + 4096, alignment: 4096)
    defer { unsafe buffer.deallocate() }
    unsafe buffer.copyBytes(from: bytes)
    _ = try unsafe fileSystem.write(
      handle, of: node, at: offset, bytes: UnsafeMutableRawBufferPointer(rebasing: buffer[..<bytes.count]), flags: [],
      caller: .own)
  }

  func truncate(_ name: String, to size: UInt64) throws(Errno) {
    var changes = AttributeChanges()
    changes.size = size
    _ = try fileSystem.setAttributes(of: entry(name).node, handle: nil, to: changes, caller: .own)
  }

  func synchronize(_ name: String) throws(Errno) {
    try with(name) { (_, handle) throws(Errno) in try fileSystem.synchronize(handle, dataOnly: false) }
  }

  func synchronizeDirectory() throws(Errno) {
    let handle = try fileSystem.openDirectory(.root, flags: HandleFlags(rawValue: O_RDONLY)).handle
    defer { fileSystem.releaseDirectory(handle) }
    try fileSystem.synchronizeDirectory(handle)
  }

  func rename(_ name: String, to other: String) throws(Errno) {
    // As the kernel, which looks both up before.
    _ = try entry(name)
    _ = try? entry(other)
    try fileSystem.rename(PathName(name), in: .root, to: PathName(other), in: .root, flags: [], caller: .own)
  }

  func unlink(_ name: String) throws(Errno) {
    _ = try entry(name)
    try fileSystem.unlink(PathName(name), in: .root, caller: .own)
  }

  func link(_ name: String, as other: String) throws(Errno) {
    _ = try fileSystem.link(entry(name).node, as: PathName(other), in: .root)
  }

  func makeDirectory(_ name: String) throws(Errno) {
    _ = try fileSystem.makeDirectory(PathName(name), in: .root, mode: 0o40700, caller: .own)
  }

  func makeSymbolicLink(_ name: String, to target: String) throws(Errno) {
    _ = try fileSystem.makeSymbolicLink(PathName(name), in: .root, target: PathName(target), caller: .own)
  }

  func setClass(of name: String, to fileClass: ProtectionClass) throws(Errno) {
    try fileSystem.setAttribute(
      "user.protectfs.class", of: entry(name).node, to: Array(fileClass.name.utf8), mode: .createOrReplace,
      caller: .own)
  }

  /// The names that a program finds.
  func names() throws(Errno) -> [String] {
    try fileSystem.names(of: .root, undecodable: { _ in }).map(\.description)
  }

  /// What a name stands for: the contents and the class of a file, the target of a link, `directory` for a directory.
  func contents(_ name: String) throws(Errno) -> [UInt8] {
    let found = try entry(name)
    guard try names().contains(name) else { throw .invalidArgument }
    switch found.attributes.type {
    case .directory: return Array("directory".utf8)
    case .symbolicLink: return Array(try fileSystem.readSymbolicLink(found.node).bytes)
    default: break
    }
    let size = Int(found.attributes.size)
    let contents = try with(name) { (node, handle) throws(Errno) in
      let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size + 2 * 4096, alignment: 4096)
      defer { unsafe buffer.deallocate() }
      return unsafe Array(
        try fileSystem.read(
          handle, of: node, at: 0, count: size, into: buffer, flags: HandleFlags(rawValue: O_RDWR), caller: .own
        ).bytes)
    }
    return try contents + fileSystem.attribute("user.protectfs.class", of: found.node, caller: .own)
  }
}
