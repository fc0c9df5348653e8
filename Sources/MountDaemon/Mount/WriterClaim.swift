import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage

/// The claim to write a store: a lock on all bytes of `.protectfs/writer`, a file that is never replaced or removed
/// (FORMAT.md, section 2).
///
/// Locks of flock(2) on directories say the same on one host. Network file systems may grant those to each host; this
/// lock counts on all that a file system serves. A server that has not heard of a host for long gives its locks away:
/// so each claim also has an identifier, which is in the file.
final class WriterClaim: Sendable {
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

  /// For so many nanoseconds a writer may go on without having asked for its claim (``StoreWatch``).
  static let validity: Int64 = 2_000_000_000

  private static let name = PathName(NameEncoding.writerFile)
  private static let identifierSize = 16
  private static let none = [UInt8](repeating: 0, count: identifierSize)

  private let file: Descriptor
  private let content: WriterFileContent
  private let identifier: [UInt8]

  private init(_ file: consuming Descriptor, _ content: consuming WriterFileContent, _ identifier: [UInt8]) {
    self.file = file
    self.content = content
    self.identifier = identifier
  }

  /// Takes the claim, until this ends. One that was left without a word, on a file system that may serve several hosts,
  /// is waited for besides: its host may not know yet that it has lost it.
  ///
  /// - Parameters:
  ///   - store: the store's own directory.
  ///   - path: the backing directory, for messages.
  /// - Throws: `StoreError.written` when another process has it, here or on another host.
  static func take(in store: borrowing Descriptor, path: String) throws(StoreError) -> WriterClaim {
    let file = try opened(path) { () throws(Errno) in
      let file = try openOrCreate(in: store)
      // Who can open it can lock it, and keep writers out.
      if try file.status().permissions != 0o600 { try file.setMode(0o600) }
      return file
    }
    try lock(file, isShared: false, path)
    let content = try opened(path) { () throws(Errno) in try WriterFileContent(of: file, in: store, name) }
    let identifier = try opened(path) { () throws(Errno) in try mark(file, content) }
    return WriterClaim(file, content, identifier)
  }

  /// Puts an identifier into the file, and returns what is there then.
  private static func mark(
    _ file: borrowing Descriptor, _ content: borrowing WriterFileContent
  ) throws(Errno) -> [UInt8] {
    let former = try content.read()
    guard former.isEmpty || former.count == identifierSize else { throw .invalidArgument }
    let identifier: [UInt8]
    do throws(CryptographyError) { identifier = try randomBytes(identifierSize) } catch { throw Errno(error) }
    do throws(Errno) {
      try file.write(identifier)
      if content.isOfServer { try file.synchronizeData() }
    } catch {
      // On a full disk files can be removed all the same.
      guard error.isOutOfSpace else { throw error }
      return try content.read()
    }
    guard content.isOfServer else { return identifier }
    if !former.isEmpty, former != none { MonotonicClock.sleep(microseconds: 3_000_000) }
    guard try content.read() == identifier else { throw .wouldBlock }
    return identifier
  }

  /// Asks the file system. A lock that was given away, and that can be had again before anybody else has made the
  /// claim, is as good as the first.
  func state() -> State {
    var failure: Errno?
    do throws(Errno) {
      do throws(Errno) { try file.lockBytes(isShared: false) } catch { failure = error }
      // Some know no better than to refuse the lock, whoever has it.
      guard try content.read() == identifier else {
        return .lost(reason: "another host or process has written the store since")
      }
      guard try file.statusOfServer().links > 0 else { return .lost(reason: "the file of its claim was replaced") }
    } catch {
      return error.isOfAGivenUpHost ? Self.refused(error) : .unknown(error)
    }
    guard let failure else { return .held }
    return failure.isOfAGivenUpHost ? Self.refused(failure) : .unlocked(failure)
  }

  private static func refused(_ error: Errno) -> State {
    .lost(reason: "its file system does not let this host write any more: \(error)")
  }

  /// Says that nothing more will be written, so that nobody need wait.
  func leave() { try? file.write(Self.none) }

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
    // Root that writes another user's store must not take it from them.
    let (owner, own) = (try store.status(), try file.status())
    if own.user != owner.user, Process.identity.user == 0 { try file.setOwner(user: owner.user, group: owner.group) }
    return file
  }

  private static func open(in store: borrowing Descriptor, _ flags: OpenFlags) throws(Errno) -> Descriptor {
    let file = try store.open(name, flags.union([.noFollow, .nonBlocking]), mode: 0o600)
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

/// What the file of the claim has: as its server has it, on a file system that may serve several hosts, and not what
/// this host remembers.
private struct WriterFileContent: ~Copyable, Sendable {
  /// Larger than an identifier, so that what is too long is seen.
  private static let blockSize = 4096

  let isOfServer: Bool
  private let file: Descriptor

  init(of file: borrowing Descriptor, in store: borrowing Descriptor, _ name: PathName) throws(Errno) {
    isOfServer = file.mayServeSeveralHosts
    let flags: OpenFlags = [.readOnly, .noFollow, .nonBlocking]
    if isOfServer, let direct = try? store.open(name, flags.union(.direct)), (try? Self.read(direct)) != nil {
      self.file = direct
    } else {
      self.file = try store.open(name, flags)
    }
  }

  func read() throws(Errno) -> [UInt8] { try Self.read(file) }

  private static func read(_ file: borrowing Descriptor) throws(Errno) -> [UInt8] {
    let block = UnsafeMutableRawBufferPointer.allocate(byteCount: blockSize, alignment: blockSize)
    defer { unsafe block.deallocate() }
    let count = try unsafe file.read(into: block, at: 0)
    return unsafe [UInt8](block[..<count])
  }
}
