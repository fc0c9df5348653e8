import Cryptography
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// An open file of the store: the backing descriptor, the record, and, while its class allows, the cipher.
///
/// There is one for each open inode, shared by all its handles. The contents lock orders data: readers share it, a
/// writer has it alone, so that no reader decrypts a block half of which is new; and so does the eviction of the key. Lock order: contents lock, then protection, then the lock controller's.
package final class ProtectedFile: Sendable {
  /// What decides who may use the file, and the means to.
  struct Protection {
    var record: FileRecord
    var cipher: ContentsCipher?
    /// The record is no more what it was, and there is no other: nobody may use the file.
    var isRefused = false
    /// A rekey failed, and could not be taken back: which key the contents are under, the next mount finds out.
    var isUnsettled = false
  }

  let descriptor: Descriptor
  private let writable: Atomic<Bool>
  let contents = ReaderWriterLock()
  let controller: LockController
  /// Never locked while anyone waits for the store.
  let protection: Mutex<Protection>
  let modificationTime: Mutex<ModificationTime>
  /// Held while the backing file is given a modification time, so that of two the later one stays.
  private let timeChange = Mutex(())
  /// The next reader may move the access time: there was none since the file was opened or changed.
  let isAccessDue = Atomic(true)
  /// The length of the plaintext in bytes. Changed with the contents lock held alone.
  let length: Atomic<UInt64>
  /// The backing file may tell another length: it could not be cut back after a failure. Before the next change it is.
  let isLengthUnsettled = Atomic(false)
  /// How often a rekey has changed the record, and how many of these changes are on the disk for sure; fdatasync(2) does not
  /// see to that.
  let recordChanges = Atomic<UInt64>(0)
  let durableRecordChanges = Atomic<UInt64>(0)

  /// An open file whose record was verified, with the backing file's status.
  package init(
    descriptor: consuming Descriptor, isWritable: Bool, record: FileRecord, cipher: ContentsCipher? = nil,
    status: Status, controller: LockController
  ) throws(Errno) {
    guard let length = ContentLength.plaintext(for: status.size) else { throw .ioError }
    self.descriptor = descriptor
    writable = Atomic(isWritable)
    self.controller = controller
    self.length = Atomic(length)
    protection = Mutex(Protection(record: record, cipher: cipher))
    modificationTime = Mutex(ModificationTime(status))
  }

  /// Notes a change, after which the next reader moves the access time.
  package func noteChange() { isAccessDue.store(true, ordering: .relaxed) }

  /// Notes a change of the contents, by which the backing file's modification time moved, and not the kernel's.
  package func movedModificationTime() {
    modificationTime.withLock { $0.move() }
  }

  /// Gives the backing file the modification time that the kernel tells, by `body`, which returns the status afterwards.
  /// A write at the same time is not taken for part of it.
  package func setModificationTime(
    _ time: TimeChange, _ body: () throws(Errno) -> Status
  ) throws(Errno) -> Status {
    try timeChange.withLock { (_) throws(Errno) in
      modificationTime.withLock { $0.willBeTold() }
      let status = try body()
      modificationTime.withLock { $0.wasTold(time, status) }
      return status
    }
  }

  /// Gives the backing file the modification time that the kernel has, before it is synchronised or the last handle goes.
  package func settleModificationTime() throws(Errno) {
    try timeChange.withLock { (_) throws(Errno) in
      guard let change = modificationTime.withLock({ $0.takeChange() }) else { return }
      try descriptor.setTimes(access: .leave, modification: change)
    }
  }

  /// Whether the backing file has another modification time than the kernel.
  package var isModificationTimeMoved: Bool { modificationTime.withLock { $0.isSettleable } }

  /// The file's class.
  package var fileClass: ProtectionClass { protection.withLock { $0.record.fileClass } }

  /// The class key that wraps the file's key, and its class.
  package var wrappingKey: (fileClass: ProtectionClass, keyID: ClassKeyID) {
    protection.withLock { ($0.record.fileClass, $0.record.classKeyID) }
  }

  /// The file's record.
  package var record: FileRecord { protection.withLock { $0.record } }

  /// Whether the backing descriptor is open for writing.
  package var isWritable: Bool { writable.load(ordering: .acquiring) }

  /// Takes a descriptor of the same file that is open for writing in the place of one that is not.
  package func becomeWritable(_ other: borrowing Descriptor) throws(Errno) {
    try descriptor.stand(for: other)
    writable.store(true, ordering: .releasing)
  }

  /// Calls `body` with the backing descriptor.
  package func withDescriptor<Result: ~Copyable>(
    _ body: (borrowing Descriptor) throws(Errno) -> Result
  ) throws(Errno) -> Result {
    try body(descriptor)
  }

  /// Whether the key is in memory.
  package var holdsKey: Bool { protection.withLock { $0.cipher != nil } }

  /// The plaintext's length in bytes.
  package var currentLength: UInt64 { length.load(ordering: .acquiring) }

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

  /// Refuses what the class does not allow now, before a lock is taken that someone may hold for whom the store does not answer.
  ///
  /// - Throws: `EACCES`.
  func requireNotDenied(_ operation: ProtectionPolicy.Operation) throws(Errno) {
    if case .denied = controller.access(for: operation, on: fileClass) { throw .permissionDenied }
  }

  /// The cipher, for an operation that the class allows now; the key is unwrapped when it is not there yet.
  ///
  /// - Throws: `EACCES` when the class does not allow the operation, `EIO` when the record's key does not unwrap, or the file is
  ///   refused.
  package func cipher(for operation: ProtectionPolicy.Operation) throws(Errno) -> ContentsCipher {
    try protection.withLock { (protection) throws(Errno) in
      if protection.isRefused || protection.isUnsettled { throw .ioError }
      switch controller.access(for: operation, on: protection.record.fileClass) {
      case .denied:
        throw .permissionDenied
      case .ifKeyHeld:
        guard let cipher = protection.cipher else { throw .permissionDenied }
        return cipher
      case .allowed:
        if let cipher = protection.cipher { return cipher }
        let cipher = try ProtectedFile.contentsCipher(of: controller.fileKey(of: protection.record), protection.record)
        protection.cipher = cipher
        return cipher
      }
    }
  }

  /// The cipher for the contents of a file with that key in its record.
  package static func contentsCipher(
    of key: borrowing FileKey, _ record: FileRecord
  ) throws(Errno) -> ContentsCipher {
    do throws(CryptographyError) { return try ContentsCipher(key, record) } catch { throw Errno(error) }
  }

  /// Wipes the key, once the operations that use it have ended.
  package func evict() {
    contents.write {
      protection.withLock { $0.cipher = nil }
    }
  }

  /// The same, but waits for them until a time of ``MonotonicClock`` at the longest: then the key is wiped all the same, and
  /// they fail with `EIO` where they come to need it. Returns whether they had ended.
  package func evict(until nanoseconds: Int64) -> Bool {
    if contents.write(until: nanoseconds, { protection.withLock { $0.cipher = nil } }) { return true }
    protection.withLock { $0.cipher.take() }?.wipe()
    return false
  }

  /// Whether the file is closed to everyone; see ``refuse()``.
  package var isRefused: Bool { protection.withLock { $0.isRefused } }

  /// Closes the file to everyone who has it open, until it has a record again; operations that use its key end first.
  package func refuse() {
    contents.write {
      protection.withLock { protection in
        protection.cipher = nil
        protection.isRefused = true
      }
    }
  }

  /// The same at once: operations that use its key end first until a time of ``MonotonicClock`` at the longest.
  package func refuse(until nanoseconds: Int64) {
    protection.withLock { $0.isRefused = true }
    _ = evict(until: nanoseconds)
  }

  /// Replaces the record by what `change` makes of it, while nobody reads or writes. The record's own lock is not held
  /// meanwhile: `change` may wait for the store.
  package func changeRecord(_ change: (FileRecord) throws(Errno) -> FileRecord) throws(Errno) {
    try contents.write { () throws(Errno) in
      let changed = try change(record)
      protection.withLock { protection in
        protection.record = changed
        protection.isRefused = false
      }
    }
  }

  /// Takes the record that `read` finds on the disk, while nobody reads or writes. Where another mount may have written it,
  /// and so given the file another key, the cipher stays only if the record is known to be of the same keys.
  package func renewRecord(isOwn: Bool, _ read: () throws(Errno) -> FileRecord) throws(Errno) {
    try contents.write { () throws(Errno) in
      let record = try read()
      protection.withLock { protection in
        if !isOwn, record != protection.record {
          let isSameRekey =
            record.pending == nil || record.pending?.wrappedOldKey == protection.record.pending?.wrappedOldKey
          let isMoved = isSameRekey && record.wrappedKey == protection.record.wrappedKey
          protection.cipher = isMoved ? protection.cipher?.moved(to: record.pending?.boundary) : nil
        }
        protection.record = record
        protection.isRefused = false
      }
    }
  }
}
