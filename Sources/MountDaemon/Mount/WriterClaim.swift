import Cryptography
import FileSystem
import ProtectfsClient
import ProtectfsIO
import StoreFormat
import Synchronization
import SystemPackage

/// The claim to write a store: a lock on all bytes of `.protectfs/writer`, a file that is never replaced or removed
/// (FORMAT.md, section 2).
///
/// Locks of flock(2) on directories say the same on one host. Network file systems may grant those to each host; this
/// lock counts on all that a file system serves. A server that has not heard of a host for long gives its locks away:
/// so each claim also has an identifier, which is in the file.
package final class WriterClaim: Sendable {
  /// What has become of a claim.
  enum State {
    case held
    /// The lock is not to be had, and nobody else has made the claim so far.
    case unlocked(Errno)
    /// Another has made the claim, or the file system takes nothing of this process any more.
    case lost(reason: String)
    /// The file system does not say.
    case unknown(Errno)
  }

  /// The status that a process ends with that has lost it.
  package static let statusOfLoss: Int32 = 30

  /// How often in a row the lock may be missing, though nobody has made the claim anew: a version that does not put an
  /// identifier in the file may have it for good, a check has it for a while, and a server of locks is started anew.
  static let mostLooksWithoutLock = 60
  static let reasonOfLock = "another host or process has the lock of its claim"

  private static let name = PathName(NameEncoding.writerFile)
  private static let identifierSize = 16
  private static let none = [UInt8](repeating: 0, count: identifierSize)
  /// A writer whose answer has just come may go on for ``StoreHold/validity``.
  private static let pause: UInt32 = 10_000_000

  private let file: Descriptor
  private let isOfServer: Bool
  private let identifier: [UInt8]
  /// The writer before had given it up; or a mount has said, by being there, that the writer before is off.
  private let mayBeLeft: Atomic<Bool>
  private let isLeft = Atomic(false)
  private let seen: Atomic<Int64>
  /// When it was last asked for and found, in nanoseconds of ``MonotonicClock/nanosecondsWithSuspension``.
  var time: Int64 { seen.load(ordering: .acquiring) }

  private init(
    _ file: consuming Descriptor, isOfServer: Bool, mayBeLeft: Bool, _ mark: (bytes: [UInt8], time: Int64)
  ) {
    self.file = file
    self.isOfServer = isOfServer
    identifier = mark.bytes
    self.mayBeLeft = Atomic(mayBeLeft)
    seen = Atomic(mark.time)
  }

  /// Takes the claim, until this ends. One that was left without a word, on a file system that may serve several hosts,
  /// is waited for besides: its host may not know yet that it has lost it.
  ///
  /// - Parameters:
  ///   - store: the store's own directory.
  ///   - path: the backing directory, for messages.
  ///   - isStandby: nobody says that the last writer is off.
  /// - Throws: `StoreError.written` when another process has it, here or on another host; `abandoned` if a standby is
  ///   not to take it.
  static func take(
    in store: borrowing Descriptor, path: String, isStandby: Bool
  ) throws(StoreError) -> WriterClaim {
    let file = try opened(path) { () throws(Errno) in
      let file = try openOrCreate(in: store)
      // Who can open it can lock it, and keep writers out.
      if try file.status().permissions != 0o600 { try file.setMode(0o600) }
      return file
    }
    try lock(file, isShared: false, path)
    let isOfServer = file.mayServeSeveralHosts
    let wasLeft: Bool = try opened(path) { () throws(Errno) in try isLeft(file) }
    if !wasLeft, isStandby, isOfServer, !keepsOutClients(file) { throw .abandoned(path: path) }
    let mark = try opened(path) { () throws(Errno) in
      try Self.mark(file, isOfServer: isOfServer, wasLeft: wasLeft, in: store)
    }
    return WriterClaim(file, isOfServer: isOfServer, mayBeLeft: wasLeft || !isOfServer, mark)
  }

  /// Whether the last writer has said that it will write no more, if there was one.
  private static func isLeft(_ file: borrowing Descriptor) throws(Errno) -> Bool {
    let last = try file.readAll(limit: identifierSize + 1)
    return last.isEmpty || last == none
  }

  /// Whether nothing reaches the file system any more that a client had begun to write when its locks were given away:
  /// CephFS refuses it, a client of GlusterFS gives up before. One of MooseFS writes it whenever it is there again.
  static func keepsOutClients(_ file: borrowing Descriptor) -> Bool {
    let type = (try? MountedFileSystem.type(of: file)) ?? nil
    return type.map { ["ceph", "fuse.ceph-fuse", "fuse.glusterfs"].contains($0) } ?? false
  }

  private static func newIdentifier() throws(Errno) -> [UInt8] {
    do throws(CryptographyError) { return try randomBytes(identifierSize) } catch { throw Errno(error) }
  }

  /// Puts an identifier into the file. Returns what is there then, and when that was asked for.
  private static func mark(
    _ file: borrowing Descriptor, isOfServer: Bool, wasLeft: Bool, in store: borrowing Descriptor
  ) throws(Errno) -> (bytes: [UInt8], time: Int64) {
    let identifier = try newIdentifier()
    do throws(Errno) {
      try file.write(identifier)
      try file.truncate(to: UInt64(identifierSize))
    } catch {
      // On a full disk files can be removed all the same.
      guard error.isOutOfSpace, !isOfServer else { throw error }
    }
    if isOfServer {
      try file.synchronizeData()
      // Where there is no other way, the host's memory must do.
      try? file.transferDirectly()
      if !wasLeft { try waitForLastWriter(in: store) }
    }
    let time = MonotonicClock.nanosecondsWithSuspension
    let bytes = try read(file)
    guard bytes == identifier || !isOfServer else { throw .wouldBlock }
    return (bytes, time)
  }

  /// What the host of a writer that has not given the store up may have on its way to the server is not to come into
  /// what is a keybag afterwards.
  private static func waitForLastWriter(in store: borrowing Descriptor) throws(Errno) {
    MonotonicClock.sleep(microseconds: pause)
    do throws(Errno) { try store.unlink("keybag.new") } catch { if error != .noSuchFileOrDirectory { throw error } }
  }

  /// What is in the file: past what this host remembers, once the descriptor transfers directly.
  private static func read(_ file: borrowing Descriptor) throws(Errno) -> [UInt8] {
    // More than an identifier, so that what is too long is seen, and what a direct transfer takes.
    let block = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 4096)
    defer { unsafe block.deallocate() }
    let count = try unsafe file.readOnce(into: block, at: 0)
    return unsafe [UInt8](block[..<count])
  }

  /// The same for one that holds the claim: NFS lets nothing be read by a descriptor that has lost its lock.
  private func content() throws(Errno) -> [UInt8] {
    do throws(Errno) {
      return try Self.read(file)
    } catch .ioError {
      let other = try reopened()
      try? other.transferDirectly()
      return try Self.read(other)
    }
  }

  /// Asks the file system. A lock that was given away, and that can be had again before anybody else has made the
  /// claim, is as good as the first.
  func state() -> State {
    var failure: Errno?
    do throws(Errno) {
      do throws(Errno) { try file.lockBytes(isShared: false) } catch { failure = error }
      guard try file.statusOfServer().links > 0 else { return .lost(reason: "the file of its claim was replaced") }
      let time = MonotonicClock.nanosecondsWithSuspension
      // Some know no better than to refuse the lock, whoever has it.
      guard try content() == identifier || isLeft.load(ordering: .acquiring) else {
        return .lost(reason: "another host or process has written the store since")
      }
      if let failure {
        if failure.isOfAGivenUpHost { throw failure }
        return .unlocked(failure)
      }
      seen.store(time, ordering: .releasing)
      return .held
    } catch {
      var failures = [failure, error]
      // A client of CephFS that was blocklisted says so when a file is opened, and hardly elsewhere. For NFS the kernel
      // makes ESTALE of a server that does not answer then.
      if errorOfOpening == .socketShutdown { failures.append(.socketShutdown) }
      guard let refusal = failures.compactMap(\.self).first(where: \.isOfAGivenUpHost) else { return .unknown(error) }
      return .lost(reason: "its file system does not let this host write any more: \(refusal)")
    }
  }

  private var errorOfOpening: Errno? {
    do throws(Errno) { _ = try reopened() } catch { return error }
    return nil
  }

  private func reopened() throws(Errno) -> Descriptor {
    try Descriptor.open(PathName(descriptor: file), [.readOnly, .nonBlocking])
  }

  /// Has this process end when the claim is lost, for as long as somebody holds on to it. For commands, which may be
  /// stopped at any call; a mount has requests that wait meanwhile (``StoreWatch``).
  func endProcessWhenLost(_ path: String) {
    guard isOfServer else { return }
    // Without a thread nobody looks.
    let thread = try? Thread(starting: "claim") { [weak self] in
      var looksWithoutLock = 0
      while true {
        MonotonicClock.sleep(microseconds: 1_000_000)
        guard let state = self?.state() else { return }
        switch state {
        case .held: looksWithoutLock = 0
        case .unlocked(.wouldBlock):
          looksWithoutLock += 1
          if looksWithoutLock >= Self.mostLooksWithoutLock { Self.endProcess(path, Self.reasonOfLock) }
        case .lost(let reason): Self.endProcess(path, reason)
        case .unlocked, .unknown: break
        }
      }
    }
    thread?.detach()
  }

  private static func endProcess(_ path: String, _ reason: String) -> Never {
    // A terminal that was stopped is not waited for, and may have a line of progress.
    let message = "\nprotectfs: \(path): the store is lost, and nothing more is changed: \(reason)\n"
    StandardStream.writeIfReady(Array(message.utf8.dropFirst(StandardStream.isErrorTerminal ? 0 : 1)), to: nil)
    Process.exitAtOnce(statusOfLoss)
  }

  /// Called when the store is mounted.
  func serves() { mayBeLeft.store(true, ordering: .releasing) }

  /// Says that nothing more will be written, so that nobody need wait. Of a writer before that has not said so, a
  /// command does not either: what that may still write is none of its business. A server that has not answered for
  /// long is not asked: it may be silent, and the claim another's.
  func leave() {
    let isFresh = MonotonicClock.nanosecondsWithSuspension < time + StoreHold.validity
    guard mayBeLeft.load(ordering: .acquiring), isFresh || !isOfServer, (try? Self.read(file)) == identifier else {
      return
    }
    isLeft.store(true, ordering: .releasing)
    try? file.transferDirectly(false)
    try? file.write(Self.none)
  }

  /// Whether somebody writes the store, or has not said that they do no more, or that cannot be told.
  static func mayBeMade(in backing: borrowing Descriptor) -> Bool {
    do throws(Errno) {
      let store = try backing.open(PathName(NameEncoding.storeDirectory), [.readOnly, .directory, .noFollow])
      let file = try open(in: store, [.readOnly])
      // One of an earlier version leaves nothing in the file.
      if try !isLeft(file) { return true }
      return try file.isClaimed
    } catch {
      return error != .noSuchFileOrDirectory
    }
  }

  /// Takes the claim from whoever has it: another file comes into the place of the locked one, or what is in it says
  /// that it was left. Returns whether somebody had it.
  static func revoke(in store: borrowing Descriptor, path: String) throws(StoreError) -> Bool {
    let file = try opened(path) { () throws(Errno) in try openOrCreate(in: store) }
    var isFree = true
    do throws(Errno) { try file.lockBytes(isShared: false) } catch {
      guard error == .wouldBlock else { throw .noLocks(path: path, error) }
      isFree = false
    }
    return try opened(path) { () throws(Errno) in
      if isFree, try isLeft(file) { return false }
      // Whoever has that one open learns of it so, too.
      let identifier = try newIdentifier()
      try file.write(identifier)
      try file.synchronizeData()
      if !isFree {
        var new = try AtomicFile(replacing: name, in: store)
        try unsafe identifier.withBytes { (bytes) throws(Errno) in try unsafe new.commit(bytes) }
        try giveToOwner(of: store, open(in: store, [.readOnly]))
      }
      if file.mayServeSeveralHosts { try waitForLastWriter(in: store) }
      if isFree { try giveUp(file, identifier) } else { try giveUp(open(in: store, [.readWrite]), identifier) }
      return true
    }
  }

  /// Writes zeros, unless another has made the claim meanwhile.
  private static func giveUp(_ file: borrowing Descriptor, _ identifier: [UInt8]) throws(Errno) {
    do throws(Errno) { try file.lockBytes(isShared: false) } catch {
      if error == .wouldBlock { return } else { throw error }
    }
    guard try file.readAll(limit: identifierSize + 1) == identifier else { return }
    try file.write(none)
    try file.synchronizeData()
  }

  /// Has nobody write for as long as the descriptor is open; `nil` where no writer has made the file yet.
  ///
  /// - Throws: as ``take(in:path:)``.
  static func keepOut(in store: borrowing Descriptor, path: String) throws(StoreError) -> Descriptor? {
    guard (try? store.exists(name)) != false else { return nil }
    let file = try opened(path) { () throws(Errno) in try open(in: store, [.readOnly]) }
    try lock(file, isShared: true, path)
    return file
  }

  private static func openOrCreate(in store: borrowing Descriptor) throws(Errno) -> Descriptor {
    // A new store has none.
    guard (try? store.exists(name)) == false else { return try open(in: store, [.readWrite]) }
    let file = try open(in: store, [.readWrite, .create])
    try giveToOwner(of: store, file)
    return file
  }

  /// Root that writes another user's store must not take it from them.
  private static func giveToOwner(of store: borrowing Descriptor, _ file: borrowing Descriptor) throws(Errno) {
    let (owner, own) = (try store.status(), try file.status())
    if own.user != owner.user, Process.identity.user == 0 { try file.setOwner(user: owner.user, group: owner.group) }
  }

  private static func open(in store: borrowing Descriptor, _ flags: OpenFlags) throws(Errno) -> Descriptor {
    let file = try store.open(name, flags.union([.noFollow, .nonBlocking]), mode: 0o600).asOnServer()
    guard try file.status().type == .regular else { throw .invalidArgument }
    return file
  }

  private static func opened<Result: ~Copyable>(
    _ path: String, _ open: () throws(Errno) -> Result
  ) throws(StoreError) -> Result {
    do throws(Errno) {
      return try open()
    } catch {
      switch error {
      case .wouldBlock: throw .written(path: path)
      case .readOnlyFileSystem: throw .readOnlyFileSystem(path: path)
      case .invalidArgument, .tooManySymbolicLinkLevels, .isDirectory: throw .writerFileMalformed(path: path)
      default: throw .backingUnreadable(path: path, error)
      }
    }
  }

  private static func lock(_ file: borrowing Descriptor, isShared: Bool, _ path: String) throws(StoreError) {
    do throws(Errno) {
      try file.lockBytes(isShared: isShared)
    } catch {
      throw error == .wouldBlock ? .written(path: path) : .noLocks(path: path, error)
    }
  }
}
