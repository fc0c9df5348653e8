import ProtectfsIO
import Synchronization
import SystemPackage

/// The backing file of an open file: its descriptor, the length of the plaintext that it encodes, and what is known of
/// its durability.
package final class BackingFile: Sendable {
  package let descriptor: Descriptor
  /// Who changes it.
  let writers: WriterState
  private let layout: ContentsLayout
  private let storedLength: Atomic<UInt64>
  /// The backing file may encode another length, because it could not be cut back after a failure.
  let needsLengthRepair = Atomic(false)
  /// There may be something behind the length that could not be cleared.
  let needsClearing = Atomic(false)
  /// The backing file system knows that the file is read from end to end.
  private let isReadOn = Atomic(false)
  /// The number of changes of the record, and how many of them are certainly durable: at first not even the one from
  /// before the file was opened.
  private let recordChanges = Atomic<UInt64>(1)
  private let durableRecordChanges = Atomic<UInt64>(0)
  private let errors = Atomic(WriteBackErrors())

  /// - Parameter length: of the plaintext, in bytes.
  init(_ descriptor: consuming Descriptor, length: UInt64, layout: ContentsLayout, writers: WriterState) {
    self.descriptor = descriptor
    self.layout = layout
    self.writers = writers
    storedLength = Atomic(length)
  }

  /// The length of the plaintext, in bytes.
  var length: UInt64 {
    get { storedLength.load(ordering: .acquiring) }
    set { storedLength.store(newValue, ordering: .releasing) }
  }

  /// The length of the plaintext that the backing file has now, where others change it too. While it has one that no
  /// plaintext has, it is being written: then the last one holds.
  ///
  /// - Throws: the error of fstat(2).
  package func currentLength() throws(Errno) -> UInt64 {
    if writers == .sole || needsLengthRepair.load(ordering: .acquiring) { return length }
    return layout.length(ofBacking: try descriptor.status().size) ?? length
  }

  /// Adopts ``currentLength()``. The caller holds the contents lock exclusively.
  package func renewLength() throws(Errno) { length = try currentLength() }

  /// Whether a failure has left something to repair.
  var needsRepair: Bool {
    needsLengthRepair.load(ordering: .acquiring) || needsClearing.load(ordering: .acquiring)
  }

  /// Replaces the descriptor by another one of the same file.
  package func replaceDescriptor(by other: borrowing Descriptor) throws(Errno) {
    try descriptor.stand(for: other)
    isReadOn.store(false, ordering: .relaxed)
  }

  /// Has the backing file system read on further ahead of a long read. With as much as one long read, which is what it
  /// reads by default, it would wait for the disk while that is decrypted.
  func willRead(_ count: Int) {
    if count <= Self.longRead || isReadOn.load(ordering: .relaxed) { return }
    isReadOn.store(true, ordering: .relaxed)
    descriptor.expectSequentialReads()
  }

  /// More than this the kernel reads at a time only ahead of a program that reads on and on.
  private static let longRead = 1 << 16

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

  /// Has the file system do what it does when a file is closed.
  ///
  /// - Throws: the error of close(2), which ``writeBackErrors`` keeps.
  package func flush() throws(Errno) {
    do throws(Errno) {
      try descriptor.flush()
    } catch {
      errors.noteLoss(error)
      throw error
    }
  }

  /// Waits until no page of a range is being written to the device, or will be before it is changed: what a power cut
  /// leaves of a page that changes meanwhile is neither the old one nor the new one.
  ///
  /// - Throws: the error of sync_file_range(2) or fdatasync(2). ``writeBackErrors`` keeps it: no other call reports it.
  func finishWriteBack(of range: Range<UInt64>, _ wait: BackingMedium.PageWait) throws(Errno) {
    do throws(Errno) {
      try waitForPages(of: range, wait)
    } catch {
      // It may be that of another page, and is reported once: this page may be fine.
      try waitForPages(of: range, wait)
    }
  }

  private func waitForPages(of range: Range<UInt64>, _ wait: BackingMedium.PageWait) throws(Errno) {
    do throws(Errno) {
      switch wait {
      case .nothing: break
      case .forPages:
        do throws(Errno) {
          try descriptor.finishWriteBack(of: range)
        } catch  where [.noFunction, .notPermitted, .notSupportedOnSocket].contains(error) {
          // A filter of system calls (seccomp(2)) does not let it through.
          try descriptor.synchronizeData()
        }
      case .forFile: try descriptor.synchronizeData()
      }
    } catch {
      errors.noteLoss(error)
      throw error
    }
  }

  /// The last such error, and how many there were so far.
  package var writeBackErrors: WriteBackErrors { errors.load(ordering: .acquiring) }
}
