import ProtectfsIO
import Synchronization
import SystemPackage

/// The contents of an open file as its backing file has them: encrypted in data units, and of a length that the length
/// of the backing file encodes.
///
/// The caller decides what the class of the file permits, passes the cipher, keeps the times, and holds the contents
/// lock: shared for reads and seeks, exclusively for changes and from the preparation of a step of a rekey to its end.
package struct FileContents: ~Copyable, Sendable {
  /// The backing file.
  package let descriptor: Descriptor
  private let storedLength: Atomic<UInt64>
  /// The backing file may encode another length, because it could not be cut back after a failure.
  let needsLengthRepair = Atomic(false)
  /// The last block may contain something past the length, or behind the block, that could not be cleared.
  let needsClearing = Atomic(false)
  /// The backing file system knows that the file is read from end to end.
  let isReadOn = Atomic(false)
  /// The number of changes of the record, and how many of them are certainly durable: at first not even the one from
  /// before the file was opened.
  private let recordChanges = Atomic<UInt64>(1)
  private let durableRecordChanges = Atomic<UInt64>(0)
  private let errors = Atomic(WriteBackErrors())

  /// The contents of an open backing file that has `backingLength` bytes.
  ///
  /// - Throws: `EIO` for a length that no contents have.
  package init(_ descriptor: consuming Descriptor, backingLength: UInt64) throws(Errno) {
    guard let length = Self.length(ofBacking: backingLength) else { throw .ioError }
    self.descriptor = descriptor
    storedLength = Atomic(length)
  }

  /// The length of the plaintext in bytes.
  package internal(set) var length: UInt64 {
    get { storedLength.load(ordering: .acquiring) }
    nonmutating set { storedLength.store(newValue, ordering: .releasing) }
  }

  /// Replaces the descriptor by another one of the same file.
  package func replaceDescriptor(by other: borrowing Descriptor) throws(Errno) {
    try descriptor.stand(for: other)
    isReadOn.store(false, ordering: .relaxed)
  }

  /// Notes a change of the file's record. Until it is certainly durable, each ``synchronize(dataOnly:)``
  /// makes it so.
  package func noteRecordChange() { recordChanges.wrappingAdd(1, ordering: .acquiringAndReleasing) }

  /// Writes data and metadata to the device; with `dataOnly` only what reading the data takes, unless the record has
  /// changed, which fdatasync(2) does not make durable. Needs no lock.
  ///
  /// - Throws: the error of fsync(2) or fdatasync(2), which ``writeBackErrors`` keeps if it says that data was lost.
  package func synchronize(dataOnly: Bool) throws(Errno) {
    let changes = recordChanges.load(ordering: .acquiring)
    do throws(Errno) {
      if dataOnly, durableRecordChanges.load(ordering: .acquiring) >= changes {
        return try descriptor.synchronizeData()
      }
      try descriptor.synchronize()
    } catch {
      errors.note(error)
      throw error
    }
    durableRecordChanges.max(changes, ordering: .acquiringAndReleasing)
  }

  /// The last such error, and how many there were so far.
  package var writeBackErrors: WriteBackErrors { errors.load(ordering: .acquiring) }
}

// The length of the backing file alone encodes that of the contents, so that `stat` opens nothing.
//
// XTS cannot encrypt a tail of less than 16 bytes. With L = 16·q + r, the backing file is 16·q bytes long if r = 0,
// else 16·(q + 1) + r: the contents padded to whole blocks, then r bytes that contain no data and are holes.
extension FileContents {
  /// The maximum length of contents, in bytes, for which the backing file's length is still an `off_t`.
  package static let longest = UInt64(Int64.max) - 31

  /// The length of the backing file for contents of `length` bytes, at most ``longest``.
  package static func backingLength(for length: UInt64) -> UInt64 {
    length % 16 == 0 ? length : length + 16
  }

  /// The length of the contents of a backing file of `length` bytes; `nil` for a length that no contents have.
  package static func length(ofBacking length: UInt64) -> UInt64? {
    if length % 16 == 0 { return length }
    return length > 16 ? length - 16 : nil
  }

  /// Refuses a length for contents that is more than ``longest``.
  ///
  /// - Throws: `EFBIG`.
  package static func requirePossible(_ length: UInt64) throws(Errno) {
    if length > longest { throw .fileTooLarge }
  }
}
