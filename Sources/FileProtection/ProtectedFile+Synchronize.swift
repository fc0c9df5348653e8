import ProtectfsIO
import Synchronization
import SystemPackage

/// The last error of write-back that fsync(2) of a backing file has met, for those who have not been told.
///
/// The kernel reports one once for each open file description (lib/errseq.c). All handles of a file share one, so the
/// first that asks would be the only one to learn of it.
struct WriteBackErrors {
  /// The number of errors. A handle that has seen this number has missed none.
  private(set) var count: UInt32 = 0
  private var last = Errno.ioError

  /// Whether an error says that data was lost, and not that a call could not be made.
  private static let losses: [Errno] = [.ioError, .noSpace, .diskQuotaExceeded]

  mutating func note(_ error: Errno) {
    guard Self.losses.contains(error) else { return }
    count &+= 1
    last = error
  }

  /// An error since a number of them was seen.
  func missed(since seen: UInt32) -> Errno? { seen == count ? nil : last }
}

/// A handle of an open file.
package final class FileHandle: Sendable {
  package let file: ProtectedFile
  /// The number of the file's errors of write-back that were there when it was opened, or that it has been told of.
  private let seenErrors: Atomic<UInt32>

  package init(_ file: ProtectedFile) {
    self.file = file
    seenErrors = Atomic(file.protection.withLock { $0.errors.count })
  }

  /// Writes data and metadata to the device. Needs no key.
  ///
  /// - Throws: what fsync(2) fails with; also, once, what it has failed with through another handle, or for the rekey
  ///   engine, since this one was opened.
  package func synchronize(dataOnly: Bool) throws(Errno) {
    var failure: Errno?
    do throws(Errno) { try file.synchronize(dataOnly: dataOnly) } catch { failure = error }
    let errors = file.protection.withLock { $0.errors }
    let seen = seenErrors.exchange(errors.count, ordering: .acquiringAndReleasing)
    if let error = failure ?? errors.missed(since: seen) { throw error }
  }
}

extension ProtectedFile {
  /// Writes data and metadata to the device. An error is kept for all handles. The caller may hold the contents lock.
  package func synchronize(dataOnly: Bool) throws(Errno) {
    let changes = recordChanges.load(ordering: .acquiring)
    do throws(Errno) {
      if dataOnly, durableRecordChanges.load(ordering: .acquiring) >= changes {
        return try descriptor.synchronizeData()
      }
      try descriptor.synchronize()
    } catch {
      protection.withLock { $0.errors.note(error) }
      throw error
    }
    durableRecordChanges.max(changes, ordering: .acquiringAndReleasing)
  }
}
