import ProtectfsPolicy
import Synchronization

/// Every open file, so that a lock can find the keys of a class. Changed with the lock of the file's node held, so that
/// whoever closes a file finds it here.
package final class OpenFileTable: Sendable {
  private let files = Mutex<[ObjectIdentifier: ProtectedFile]>([:])

  package init() {}

  /// Adds a file when its first handle opens.
  package func add(_ file: ProtectedFile) {
    files.withLock { $0[ObjectIdentifier(file)] = file }
  }

  /// Removes a file when its last handle is closed.
  package func remove(_ file: ProtectedFile) {
    files.withLock { _ = $0.removeValue(forKey: ObjectIdentifier(file)) }
  }

  /// The files that are open now.
  package var all: [ProtectedFile] { files.withLock { Array($0.values) } }

  /// Wipes the keys of all open files of a class; operations that use them end first, unless they have not at a time of
  /// `MonotonicClock`. Returns whether all had.
  package func evict(_ fileClass: ProtectionClass, until nanoseconds: Int64) -> Bool {
    var haveEnded = true
    for file in all where file.fileClass == fileClass && !file.evict(until: nanoseconds) { haveEnded = false }
    return haveEnded
  }

  /// How many files of each class are open.
  package var counts: [ProtectionClass: Int] {
    all.reduce(into: [:]) { $0[$1.fileClass, default: 0] += 1 }
  }
}
