import ProtectfsIO
import Synchronization
import SystemPackage

/// What an fsync(2) of the backing file has failed with, for those who have not been told.
///
/// The kernel reports an error of write-back once for each open file description (fs/file_table.c, lib/errseq.c). All
/// handles of a file share one, so the first who asks would be the only one to learn of it.
struct WriteBackErrors {
  /// The number of errors, modulo 256. A handle that was opened at this number has missed none.
  private(set) var count: UInt8 = 0
  private var last: Errno?
  /// The processes that know of the last error.
  private var told: Set<Int32> = []

  /// Notes an error that a process is told of; `nil` if it is nobody's.
  mutating func note(_ error: Errno, to process: Int32?) {
    count &+= 1
    last = error
    told = process.map { [$0] } ?? []
  }

  /// An error that a process has not been told of, for a handle that was opened at a count of errors. It counts as told
  /// then.
  mutating func take(for process: Int32, since opened: UInt8) -> Errno? {
    guard opened != count, told.insert(process).inserted else { return nil }
    return last
  }
}

extension ProtectedFile {
  /// The number of errors of write-back, modulo 256; a handle remembers it.
  package var errorCount: UInt8 { protection.withLock { $0.errors.count } }

  /// Writes data and metadata to the device, for a handle that was opened at a count of errors. Needs no key.
  ///
  /// - Throws: what fsync(2) fails with; also what it has failed with for another process, or for the rekey engine,
  ///   since the handle was opened.
  package func synchronize(dataOnly: Bool, for process: Int32, since opened: UInt8) throws(Errno) {
    try repairEnd()
    try synchronize(dataOnly: dataOnly, for: process)
    if let error = protection.withLock({ $0.errors.take(for: process, since: opened) }) { throw error }
  }

  /// Writes data and metadata to the device. An error is kept for those who have the file open. The caller may hold the
  /// contents lock.
  package func synchronize(dataOnly: Bool, for process: Int32? = nil) throws(Errno) {
    let changes = recordChanges.load(ordering: .acquiring)
    do throws(Errno) {
      if dataOnly, durableRecordChanges.load(ordering: .acquiring) >= changes {
        return try descriptor.synchronizeData()
      }
      try descriptor.synchronize()
    } catch {
      protection.withLock { $0.errors.note(error, to: process) }
      throw error
    }
    durableRecordChanges.max(changes, ordering: .acquiringAndReleasing)
  }
}
