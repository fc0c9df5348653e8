import Synchronization
import SystemPackage

/// The last error of write-back that fsync(2) of a backing file, or a wait for its pages, has met, for those to whom it
/// was not reported.
///
/// The kernel reports one once for each open file description (lib/errseq.c). All handles of a file share one, so the
/// first that asks would be the only one to learn of it.
package struct WriteBackErrors: RawRepresentable, AtomicRepresentable, Sendable {
  /// The number of errors in the upper 32 bits, the last error in the lower.
  package let rawValue: UInt64

  package init(rawValue: UInt64) { self.rawValue = rawValue }

  /// No errors.
  package init() { self.init(rawValue: 0) }

  /// The number of errors. A handle that has seen this number has missed none.
  package var count: UInt32 { UInt32(rawValue >> 32) }

  /// Whether an error says that data was lost, and not that a call could not be made.
  fileprivate static let losses: [Errno] = [.ioError, .noSpace, .diskQuotaExceeded]

  /// The errors with another one, if it says that data was lost.
  func noting(_ error: Errno) -> WriteBackErrors {
    guard Self.losses.contains(error) else { return self }
    return WriteBackErrors(rawValue: UInt64(count &+ 1) << 32 | UInt64(UInt32(bitPattern: error.rawValue)))
  }

  /// The last error, if there was one since a number of them was seen.
  package func missed(since seen: UInt32) -> Errno? {
    seen == count ? nil : Errno(rawValue: CInt(truncatingIfNeeded: rawValue))
  }
}

extension Atomic where Value == WriteBackErrors {
  /// Notes an error of a call that reports none but those of write-back: with others of the device too (`ENODATA`).
  func noteLoss(_ error: Errno) { note(WriteBackErrors.losses.contains(error) ? error : .ioError) }

  func note(_ error: Errno) {
    var known = load(ordering: .relaxed)
    while true {
      let (isDone, found) = compareExchange(
        expected: known, desired: known.noting(error), ordering: .acquiringAndReleasing)
      if isDone { return }
      known = found
    }
  }
}
