import Contents
import Synchronization
import SystemPackage

/// A handle of an open file.
package final class FileHandle: Sendable {
  package let file: ProtectedFile
  /// The number of the file's errors of write-back that were there when it was opened, or that were reported to it.
  private let seenErrors: Atomic<UInt32>

  package init(_ file: ProtectedFile) {
    self.file = file
    seenErrors = Atomic(file.contents.backing.writeBackErrors.count)
  }

  /// Writes data and metadata to the device. Needs no key.
  ///
  /// - Throws: what fsync(2) fails with; also, once, what it has failed with through another handle, or for the rekey
  ///   engine, since this one was opened.
  package func synchronize(dataOnly: Bool) throws(Errno) {
    var failure: Errno?
    do throws(Errno) { try file.synchronize(dataOnly: dataOnly) } catch { failure = error }
    let errors = file.contents.backing.writeBackErrors
    let seen = seenErrors.exchange(errors.count, ordering: .acquiringAndReleasing)
    if let error = failure ?? errors.missed(since: seen) { throw error }
  }
}
