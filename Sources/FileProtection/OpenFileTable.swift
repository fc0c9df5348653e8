import ProtectfsIO
import ProtectfsPolicy

/// All open files, so that a lock can find the keys of a class. The caller of `add` and `remove` holds the lock of the
/// file's node, so a thread that closes a file finds it here.
package final class OpenFileTable: Sendable {
  private let files = RankedMutex<[ObjectIdentifier: ProtectedFile]>(.openFiles, [:])

  package init() {}

  /// Adds a file when its first handle opens.
  package func add(_ file: ProtectedFile) {
    files.withLock { $0[ObjectIdentifier(file)] = file }
  }

  /// Removes a file when its last handle is closed.
  package func remove(_ file: ProtectedFile) {
    files.withLock { _ = $0.removeValue(forKey: ObjectIdentifier(file)) }
  }

  /// All open files.
  package var all: [ProtectedFile] { files.withLock { Array($0.values) } }

  /// Wipes the keys of all open files of a class, when the operations that use them have ended or at a time of
  /// `MonotonicClock`. Returns whether all had ended.
  package func evict(_ fileClass: ProtectionClass, until nanoseconds: Int64) -> Bool {
    var haveEnded = true
    for file in all where file.fileClass == fileClass && !file.evict(until: nanoseconds) { haveEnded = false }
    return haveEnded
  }

  /// The number of open files by class.
  package var counts: [ProtectionClass: Int] {
    all.reduce(into: [:]) { $0[$1.fileClass, default: 0] += 1 }
  }
}
