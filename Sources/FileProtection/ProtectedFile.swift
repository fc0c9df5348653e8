import Contents
import Cryptography
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// An open file of the store: its contents, the record and, while its class allows, the cipher.
///
/// There is one for each open inode, shared by all its handles. The contents lock orders access to data: readers share
/// it, and a writer or the eviction of the key takes it exclusively, so that no reader decrypts a block of which only
/// half is new. Lock order: contents lock, then protection, then the lock controller's.
package final class ProtectedFile: Sendable {
  /// The file's record and cipher, which decide whether the file can be used.
  struct Protection {
    var record: FileRecord
    var cipher: ContentsCipher?
    /// The record is no longer valid, and there is no other: the file cannot be used.
    var isRefused = false
    /// A rekey failed and could not be undone. The next mount finds out which key the contents are under.
    var isAbandoned = false
  }

  let layout: ContentsLayout
  let contents: any FileContents
  private let writable: Atomic<Bool>
  let contentsLock = ReaderWriterLock(.contents)
  /// Shared by copies from this file to others, which have its plaintext while they wait for those. Taken exclusively
  /// before ``contentsLock`` by the eviction of the key.
  private let copies = ReaderWriterLock(.openDirectory)
  let controller: LockController
  /// Never held while a thread waits for the store.
  let protection: RankedMutex<Protection>
  let modificationTime: RankedMutex<ModificationTime>
  /// Held while the backing file is given a modification time, so that the later of two stays.
  let timeChange = RankedMutex(.timeChange, ())
  /// Called before the first change of the contents, without locks.
  private let willChange: (@Sendable (ProtectedFile) throws(Errno) -> Void)?
  private let changed: Atomic<Bool>
  private let isDamageTold = Atomic(false)
  let unflushed = Atomic(false)
  /// The next reader may move the access time, because there was none since the file was opened or changed.
  let isAccessDue = Atomic(true)

  /// Creates an open file with a verified record and the status of the backing file.
  ///
  /// - Parameters:
  ///   - writers: who changes the file.
  ///   - known: what is known of the contents from when they were closed.
  ///   - willChange: called before the first change of the contents, without locks; `nil` for a new file.
  /// - Throws: `EIO` for a length that no plaintext can have.
  package init(
    descriptor: consuming Descriptor, layout: ContentsLayout, isWritable: Bool, record: FileRecord,
    cipher: ContentsCipher? = nil, status: Status, controller: LockController,
    writers: WriterState = .sole, known: CleanContents? = nil,
    willChange: (@Sendable (ProtectedFile) throws(Errno) -> Void)? = nil
  ) throws(Errno) {
    self.layout = layout
    contents = try layout.contents(of: descriptor, backingLength: status.size, writers: writers)
    writable = Atomic(isWritable)
    self.controller = controller
    self.willChange = willChange
    changed = Atomic(willChange == nil)
    protection = RankedMutex(.protection, Protection(record: record, cipher: cipher))
    modificationTime = RankedMutex(
      .modificationTime, ModificationTime(record.shown(status.modificationTime)))
    contents.expect(known)
  }

  /// The file's class.
  package var fileClass: ProtectionClass { protection.withLock { $0.record.fileClass } }

  /// The class key that wraps the file's key, and the class, which may be explicit.
  package var wrappingKey: (fileClass: ProtectionClass, keyID: ClassKeyID, isExplicit: Bool) {
    protection.withLock { ($0.record.fileClass, $0.record.classKeyID, $0.record.isExplicit) }
  }

  /// The file's record.
  package var record: FileRecord { protection.withLock { $0.record } }

  /// Whether the backing descriptor is open for writing.
  package var isWritable: Bool { writable.load(ordering: .acquiring) }

  /// Replaces the descriptor by one of the same file that is open for writing.
  package func becomeWritable(_ other: borrowing Descriptor) throws(Errno) {
    try contents.backing.replaceDescriptor(by: other)
    writable.store(true, ordering: .releasing)
  }

  /// Calls `body` with the backing descriptor.
  package func withDescriptor<Result: ~Copyable>(
    _ body: (borrowing Descriptor) throws(Errno) -> Result
  ) throws(Errno) -> Result {
    try body(contents.backing.descriptor)
  }

  /// Whether the key is in memory.
  package var holdsKey: Bool { protection.withLock { $0.cipher != nil } }

  /// The length of the plaintext in bytes.
  package var currentLength: UInt64 { contents.length }

  /// Whether an operation through a handle is allowed now.
  package func isAllowed(_ operation: ProtectionPolicy.Operation) -> Bool {
    protection.withLock { protection in
      if protection.isRefused { return false }
      return switch controller.access(for: operation, on: protection.record.fileClass) {
      case .allowed: true
      case .ifKeyHeld: protection.cipher != nil
      case .denied: false
      }
    }
  }

  /// Refuses an operation that the class does not allow now, before a lock is taken that may be held by a thread that
  /// waits for the store.
  ///
  /// - Throws: `EACCES`.
  package func requireNotDenied(_ operation: ProtectionPolicy.Operation) throws(Errno) {
    if case .denied = controller.access(for: operation, on: fileClass) { throw .permissionDenied }
  }

  /// The cipher for an operation that the class allows now. The key is unwrapped if it is not in memory.
  ///
  /// - Throws: `EACCES` if the class does not allow the operation, `EIO` if the record's key cannot be unwrapped or the
  ///   file is refused.
  package func cipher(for operation: ProtectionPolicy.Operation) throws(Errno) -> ContentsCipher {
    try protection.withLock { (protection) throws(Errno) in
      if protection.isRefused || protection.isAbandoned { throw .ioError }
      switch controller.access(for: operation, on: protection.record.fileClass) {
      case .denied:
        throw .permissionDenied
      case .ifKeyHeld:
        guard let cipher = protection.cipher else { throw .permissionDenied }
        return cipher
      case .allowed:
        if let cipher = protection.cipher { return cipher }
        let cipher = try layout.cipher(of: controller.fileKey(of: protection.record), protection.record)
        protection.cipher = cipher
        return cipher
      }
    }
  }

  /// Wipes the key when the operations that use it have ended.
  package func evict() {
    contentsLock.write {
      protection.withLock { $0.cipher = nil }
    }
  }

  /// Calls `body`, which reads from this file and writes that to another. A lock waits for its end.
  package func copying<Result>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result { try copies.read(body) }

  /// Wipes the key when the operations that use it have ended, or at a time of ``MonotonicClock``. Operations that have
  /// not ended by then fail with `EIO` when they need the key. Returns whether they had ended.
  package func evict(until nanoseconds: Int64) -> Bool {
    var haveEnded = false
    _ = copies.write(until: nanoseconds) {
      haveEnded = contentsLock.write(until: nanoseconds) { protection.withLock { $0.cipher = nil } }
    }
    if haveEnded { return true }
    protection.withLock { $0.cipher.take() }?.wipe()
    return false
  }

  /// Whether the file is closed to everyone; see ``refuse()``.
  package var isRefused: Bool { protection.withLock { $0.isRefused } }

  /// Closes the file to everyone who has it open, until it has a valid record again. Operations that use its key end
  /// first.
  package func refuse() {
    contentsLock.write {
      protection.withLock { protection in
        protection.cipher = nil
        protection.isRefused = true
      }
    }
  }

  /// Closes the file at once. Operations that use its key may end until a time of ``MonotonicClock``.
  package func refuse(until nanoseconds: Int64) {
    protection.withLock { $0.isRefused = true }
    _ = evict(until: nanoseconds)
  }

  /// Closes the file until ``renewRecord(isOwn:_:)``, because it is unknown which record it has. The caller holds the
  /// contents lock exclusively.
  package func refuseUntilRenewed() { protection.withLock { $0.isRefused = true } }

  /// Adopts the record that `read` finds on disk while there are no readers or writers. If another mount may have
  /// written the record, and so given the file another key, or the file was refused, the cipher is kept only if the
  /// record is known to have the same keys.
  package func renewRecord(isOwn: Bool, _ read: () throws(Errno) -> FileRecord) throws(Errno) {
    try contentsLock.write { () throws(Errno) in adopt(try read(), isOwn: isOwn) }
  }

  /// Adopts a record that was read from the disk; see ``renewRecord(isOwn:_:)``. The caller holds the contents lock
  /// exclusively.
  package func adopt(_ record: FileRecord, isOwn: Bool) {
    protection.withLock { protection in
      if !isOwn || protection.isRefused, record != protection.record {
        let isSameRekey =
          record.pending == nil || record.pending?.wrappedOldKey == protection.record.pending?.wrappedOldKey
        let isMoved = isSameRekey && record.wrappedKey == protection.record.wrappedKey
        protection.cipher = isMoved ? protection.cipher?.moved(to: record.pending?.boundary) : nil
      }
      protection.record = record
      protection.isRefused = false
    }
    if !isOwn || record.clean != nil { contents.expect(record.clean) }
  }

  /// Has everything done that must come before the first change of the contents. The caller holds no lock of the file.
  func announceChange() throws(Errno) {
    guard let willChange, !isChanged else { return }
    try willChange(self)
    changed.store(true, ordering: .releasing)
  }

  /// Whether the contents were changed since ``flush()``.
  package var hasUnflushed: Bool { unflushed.load(ordering: .acquiring) }

  /// Has the backing file system send what was written.
  ///
  /// - Throws: its error, which ``hasLost`` keeps.
  package func flush() throws(Errno) {
    guard unflushed.exchange(false, ordering: .acquiringAndReleasing) else { return }
    try contents.backing.flush()
  }

  /// Whether the contents were changed since the file was opened, or made.
  package var isChanged: Bool { changed.load(ordering: .acquiring) }

  /// Whether somebody is to be told that the contents are damaged: once.
  package func tellsDamage() -> Bool { !isDamageTold.exchange(true, ordering: .relaxed) }

  /// What a record says of the contents once they are durable.
  package var cleanContents: CleanContents { CleanContents(length: contents.length, isDense: contents.isDense) }

  /// Whether something of the contents was lost on its way to the device.
  package var hasLost: Bool { contents.backing.writeBackErrors.count > 0 }
}

extension ContentsLayout {
  /// The cipher for the contents of a file with this key in its record.
  package func cipher(of key: borrowing FileKey, _ record: FileRecord) throws(Errno) -> ContentsCipher {
    do throws(CryptographyError) { return try cipher(key, record) } catch { throw Errno(error) }
  }
}
