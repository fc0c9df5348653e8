import BackingTree
import Contract
import Cryptography
import FileSystem
import Glibc
import KeyManagement
import Logging
import ProtectfsIO
import ProtectfsPolicy
import SimulatedDisk
import StoreCheck
import StoreFormat
import SystemPackage

@testable import FUSE
@testable import MountDaemon

/// A daemon that serves a store on a simulated disk, unlocked, and is asked on the calling thread.
final class SimulatedMount {
  /// A store, and the disk that it begins with.
  final class Store: Sendable {
    static let shared = Result { try Simulation.repeatably(.store) { try Store() } }
    static let authenticated = Result { try Simulation.repeatably(.store) { try Store(authenticatesContents: true) } }

    static func kept(authenticatesContents: Bool) throws -> Store {
      try (authenticatesContents ? authenticated : shared).get()
    }

    private let new: NewKeybag
    private let key: [UInt8]
    let image: DiskImage

    init(authenticatesContents: Bool = TestedStores.areAuthenticated) throws {
      let storeID = try StoreID.random()
      key = [UInt8](repeating: 5, count: 32)
      let deviceKey = try VolumeDeviceKey(deviceKey: SecretBytes(key), storeID: storeID)
      let new = try Keybag.create(
        authenticatesContents: authenticatesContents, passcode: SecretBytes(Array("passcode".utf8)),
        deviceKey: deviceKey, storeID: storeID, eraseAfter: nil, cost: Self.cost)
      let disk = SimulatedDisk()
      try disk.run {
        let backing = try SimulatedMount.backing()
        try KeybagFile.makeDirectory(in: backing)
        try KeybagFile(backing: backing).commit(new.change)
        try BackingTree.writeRootRecord(
          to: backing, defaultClass: .standard, volume: VolumeKeys(deviceKey, storeID: storeID))
        try backing.synchronizeFileSystem()
      }
      self.new = new
      image = disk.image
    }

    func deviceKey() throws -> VolumeDeviceKey {
      try VolumeDeviceKey(deviceKey: SecretBytes(key), storeID: new.keybag.storeID)
    }

    func secret() throws -> UnlockSecret { try .recoveryKey(new.recoveryKey.text()) }

    func changePasscode(to passcode: String) throws {
      let file = try KeybagFile(backing: SimulatedMount.backing())
      let deviceKey = try deviceKey()
      let opened = try file.open(
        Keybag(parsing: file.read(), deviceKey: deviceKey), with: secret(), deviceKey: deviceKey)
      try file.commit(opened.changed(by: .changePasscode(SecretBytes(Array(passcode.utf8))), cost: Self.cost))
    }

    /// Whether it is the passcode.
    func opens(with passcode: String) throws -> Bool {
      let file = try KeybagFile(backing: SimulatedMount.backing())
      let deviceKey = try deviceKey()
      let keybag = try Keybag(parsing: file.read(), deviceKey: deviceKey)
      do {
        _ = try file.open(keybag, with: .passcode(SecretBytes(Array(passcode.utf8))), deviceKey: deviceKey)
        return true
      } catch KeyManagementError.wrongPasscode {
        return false
      }
    }

    private static let cost = ScryptParameters(logN: 16, r: 8, p: 1)
  }

  /// What `fsck` says is an error, of a store that nobody has mounted since.
  ///
  /// - Parameter options: contents are read of one file only, as threads know no simulated disk.
  static func errors(in store: Store, _ options: StoreCheck.Options = []) throws -> [String] {
    final class Errors: CheckObserver {
      var codes: [String] = []

      func found(_ finding: Finding) { if finding.defect.severity == .error { codes.append(finding.defect.rawValue) } }
      func checked(_ summary: CheckSummary) {}
    }
    let backing = try backing()
    let deviceKey = try store.deviceKey()
    let errors = Errors()
    let unlock: StoreCheck.Unlock = { (file, keybag, deviceKey) throws(KeyManagementError) in
      guard let secret = try? store.secret() else { throw .keybagMissing }
      return try file.open(keybag, with: secret, deviceKey: deviceKey).heldKeys()
    }
    _ = try StoreCheck.run(
      backing, copies: KeybagCopies(backing: backing),
      keybag: Keybag(parsing: KeybagFile(backing: backing).read(), deviceKey: deviceKey), deviceKey: deviceKey,
      unlock: options.contains(.contents) ? unlock : nil, options: options, observer: errors)
    return errors.codes
  }

  private let store: Store
  private var daemon: Daemon
  private var engine: RekeyEngine
  private var fileSystem: ProtectedFileSystem { daemon.fileSystem }
  /// What a kernel would know.
  private var known: [NodeID] = []

  static func backing() throws(Errno) -> Descriptor {
    try Descriptor.open(SimulatedDisk.path, [.readOnly, .directory])
  }

  /// Removes the files of long names from the directories in the topmost one, behind the mount's back, and leaves their
  /// sidecars, as a crash may.
  static func leaveSidecars() throws {
    let backing = try backing()
    for name in try backing.names() where name != PathName(NameEncoding.storeDirectory) {
      guard try backing.status(of: name).type == .directory else { continue }
      let directory = try backing.open(name, [.readOnly, .directory])
      for name in try directory.names() {
        if case .hashed = NameEncoding.parse(name.bytes) { try directory.unlink(name) }
      }
    }
  }

  init(_ store: Store, isReadOnly: Bool = false) throws {
    self.store = store
    (daemon, engine) = try Self.start(store, isReadOnly: isReadOnly)
  }

  deinit { forgetAll() }

  /// Starts a daemon, and unlocks.
  private static func start(_ store: Store, isReadOnly: Bool) throws -> (Daemon, RekeyEngine) {
    var options = MountOptions(backing: SimulatedDisk.path.description, mountPoint: "/mount")
    options.isReadOnly = isReadOnly
    let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    let deviceKey = try store.deviceKey()
    let keybag = try MountProcess.openKeybag(in: backing(), deviceKey, isReadOnly: isReadOnly, log)
    let daemon = try Daemon(options: options, keybag: keybag, deviceKey: deviceKey, files: SharedNumbers(), log: log)
    try daemon.unlock(store.secret())
    return (daemon, RekeyEngine(daemon.tree))
  }

  private func forgetAll() {
    for node in known { fileSystem.forget(node, count: 1) }
    known = []
  }

  /// Erases the keys of a class on disk, as `erase --class` does, and ends the daemon, which has no thread that takes
  /// them out of its memory.
  func erase(_ fileClass: ProtectionClass) throws {
    try daemon.prepareErasure()
    _ = try daemon.eraseOnDisk(fileClass, with: store.secret())
    forgetAll()
    (daemon, engine) = try Self.start(store, isReadOnly: false)
  }

  /// Makes the files clean that were closed.
  func clean() { daemon.tree.cleanClosedFiles() }

  /// Does what the engine of rekeys has to do, and what has failed anew.
  func rekey() {
    daemon.tree.resumeRekeys()
    engine.runOnce()
  }

  func rotate(_ fileClass: ProtectionClass) throws {
    try daemon.beginRotation(of: fileClass, with: store.secret()).run { _ in true }
  }

  // MARK: Calls, by paths

  /// The kernel's number of the directory that a path names something in, and the name.
  private func place(_ path: String) throws(Errno) -> (directory: NodeID, name: PathName) {
    var names = path.split(separator: "/").map(String.init)
    let name = PathName(names.removeLast())
    var directory = NodeID.root
    for name in names { directory = try entry(PathName(name), in: directory).node }
    return (directory, name)
  }

  private func entry(_ name: PathName, in directory: NodeID) throws(Errno) -> Entry {
    let entry = try fileSystem.lookup(name, in: directory)
    // What the kernel remembers as missing.
    guard entry.node.rawValue != 0 else { throw .noSuchFileOrDirectory }
    known.append(entry.node)
    return entry
  }

  private func entry(_ path: String) throws(Errno) -> Entry {
    let place = try place(path)
    return try entry(place.name, in: place.directory)
  }

  /// Opens a file for `body`; before that, and after it was looked up, calls `beforeOpen`.
  private func with<Result>(
    _ name: String, _ mode: CInt = O_RDWR, beforeOpen: () throws(Errno) -> Void = {},
    _ body: (NodeID, Handle) throws(Errno) -> Result
  ) throws(Errno) -> Result {
    let node = try entry(name).node
    try beforeOpen()
    let flags = HandleFlags(rawValue: mode)
    let handle = try fileSystem.open(node, flags: flags, caller: .own).handle
    defer { fileSystem.release(handle, of: node, flags: flags) }
    return try body(node, handle)
  }

  func create(_ path: String, _ contents: [UInt8]) throws(Errno) {
    let flags = HandleFlags(rawValue: O_RDWR | O_CREAT | O_EXCL)
    let place = try place(path)
    let (entry, opened) = try fileSystem.create(
      place.name, in: place.directory, mode: 0o100600, flags: flags, caller: .own)
    known.append(entry.node)
    defer { fileSystem.release(opened.handle, of: entry.node, flags: flags) }
    if !contents.isEmpty { try write(contents, at: 0, entry.node, opened.handle) }
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

  func truncate(_ name: String, to size: UInt64) throws(Errno) { try change(name) { $0.size = size } }

  func openTruncating(_ name: String) throws(Errno) { try with(name, O_RDWR | O_TRUNC) { (_, _) in } }

  func setMode(of name: String, to mode: UInt32) throws(Errno) { try change(name) { $0.mode = mode } }

  private func change(_ name: String, _ body: (inout AttributeChanges) -> Void) throws(Errno) {
    var changes = AttributeChanges()
    body(&changes)
    _ = try fileSystem.setAttributes(of: entry(name).node, handle: nil, to: changes, caller: .own)
  }

  /// Calls `body` while a program has a file open.
  func open(_ name: String, _ body: () throws -> Void) throws {
    var failure: (any Error)?
    try with(name) { (_, _) throws(Errno) in
      do { try body() } catch { failure = error }
    }
    if let failure { throw failure }
  }

  func synchronize(_ name: String, dataOnly: Bool = false) throws(Errno) {
    try with(name) { (_, handle) throws(Errno) in try fileSystem.synchronize(handle, dataOnly: dataOnly) }
  }

  func allocate(_ mode: AllocationMode, _ range: Range<UInt64>, of name: String) throws(Errno) {
    try with(name) { (node, handle) throws(Errno) in
      try fileSystem.allocate(
        handle, of: node, mode: mode, offset: range.lowerBound, length: UInt64(range.count), caller: .own)
    }
  }

  /// Copies so many bytes from the beginning of one file into another one.
  func copy(_ name: String, _ count: Int, to other: String, at offset: UInt64) throws(Errno) {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
    defer { unsafe buffer.deallocate() }
    try with(name) { (sourceNode, source) throws(Errno) in
      try with(other) { (node, target) throws(Errno) in
        _ = try unsafe fileSystem.copyRange(
          from: source, of: sourceNode, at: 0, to: target, of: node, at: offset, count: count, buffer: buffer,
          caller: .own)
      }
    }
  }

  /// `nil` stands for the topmost directory.
  func synchronizeDirectory(_ path: String? = nil) throws(Errno) {
    let node = if let path { try entry(path).node } else { NodeID.root }
    let handle = try fileSystem.openDirectory(node, flags: HandleFlags(rawValue: O_RDONLY)).handle
    defer { fileSystem.releaseDirectory(handle) }
    try fileSystem.synchronizeDirectory(handle)
  }

  func rename(_ path: String, to other: String, flags: RenameFlags = []) throws(Errno) {
    // As the kernel, which looks both up before.
    _ = try entry(path)
    let (from, to) = (try place(path), try place(other))
    _ = try? entry(other)
    try fileSystem.rename(from.name, in: from.directory, to: to.name, in: to.directory, flags: flags, caller: .own)
  }

  func unlink(_ path: String) throws(Errno) {
    _ = try entry(path)
    let place = try place(path)
    try fileSystem.unlink(place.name, in: place.directory, caller: .own)
  }

  func link(_ path: String, as other: String) throws(Errno) {
    let place = try place(other)
    known.append(try fileSystem.link(entry(path).node, as: place.name, in: place.directory).node)
  }

  func makeDirectory(_ path: String) throws(Errno) {
    let place = try place(path)
    let made = try fileSystem.makeDirectory(place.name, in: place.directory, mode: 0o40700, caller: .own)
    known.append(made.node)
  }

  func removeDirectory(_ path: String) throws(Errno) {
    _ = try entry(path)
    let place = try place(path)
    try fileSystem.removeDirectory(place.name, in: place.directory)
  }

  func makeFIFO(_ path: String) throws(Errno) { try makeNode(path, .fifo) }

  func makeFile(_ path: String) throws(Errno) { try makeNode(path, .regular) }

  private func makeNode(_ path: String, _ type: InodeType) throws(Errno) {
    let place = try place(path)
    let made = try fileSystem.makeNode(
      place.name, in: place.directory, mode: type.rawValue | 0o600, device: 0, caller: .own)
    known.append(made.node)
  }

  func makeSymbolicLink(_ path: String, to target: String) throws(Errno) {
    let place = try place(path)
    let made = try fileSystem.makeSymbolicLink(
      place.name, in: place.directory, target: PathName(target), caller: .own)
    known.append(made.node)
  }

  private static let classAttribute: PathName = "user.protectfs.class"

  func setClass(of name: String, to fileClass: ProtectionClass) throws(Errno) {
    try setAttribute(Self.classAttribute, of: name, to: Array(fileClass.name.utf8))
  }

  func removeClass(of name: String) throws(Errno) { try setAttribute(Self.classAttribute, of: name, to: nil) }

  /// `nil` removes it.
  func setAttribute(_ attribute: PathName, of name: String, to value: [UInt8]?) throws(Errno) {
    let node = try entry(name).node
    if let value {
      try fileSystem.setAttribute(attribute, of: node, to: value, mode: .createOrReplace, caller: .own)
    } else {
      try fileSystem.removeAttribute(attribute, of: node, caller: .own)
    }
  }

  /// The names that a program finds in a directory.
  private func names(in directory: NodeID) throws(Errno) -> [String] {
    try fileSystem.names(of: directory, undecodable: { _ in }).map(\.description)
  }

  /// What a path stands for: the contents and the class of a file, the target of a link, `directory` and the class of a
  /// directory. Behind a `#`, the mode of a file or one of its attributes.
  ///
  /// - Throws: `ENOENT`, also for an attribute.
  func contents(_ path: String) throws(Errno) -> [UInt8] {
    let parts = path.split(separator: "#").map(String.init)
    let found = try entry(parts[0])
    if parts.last == "mode" { return Array("\(found.attributes.mode & 0o777)".utf8) }
    if parts.count > 1 {
      do throws(Errno) {
        return try fileSystem.attribute(PathName(parts[1]), of: found.node, caller: .own)
      } catch {
        throw error == .noData ? .noSuchFileOrDirectory : error
      }
    }
    let place = try place(path)
    guard try names(in: place.directory).contains(place.name.description) else { throw .invalidArgument }
    switch found.attributes.type {
    case .directory:
      _ = try names(in: found.node)
      return try Array("directory".utf8)
        + fileSystem.attribute(Self.classAttribute, of: found.node, caller: .own)
    case .symbolicLink: return Array(try fileSystem.readSymbolicLink(found.node).bytes)
    case .regular: break
    default: return Array("fifo".utf8)
    }
    return try read(path, at: 0, count: Int(found.attributes.size))
      + fileSystem.attribute(Self.classAttribute, of: found.node, caller: .own)
  }

  func size(of path: String) throws(Errno) -> Int { Int(try entry(path).attributes.size) }

  func read(
    _ path: String, at offset: UInt64, count: Int, beforeOpen: () throws(Errno) -> Void = {}
  ) throws(Errno) -> [UInt8] {
    try with(path, O_RDONLY, beforeOpen: beforeOpen) { (node, handle) throws(Errno) in
      let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count + 3 * 4096, alignment: 4096)
      defer { unsafe buffer.deallocate() }
      return unsafe Array(
        try fileSystem.read(
          handle, of: node, at: offset, count: count, into: buffer, flags: HandleFlags(rawValue: O_RDONLY),
          caller: .own))
    }
  }
}
