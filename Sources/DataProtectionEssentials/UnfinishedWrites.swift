import FoundationEssentials
import ProtectfsIO
import Synchronization
import SystemPackage

/// Staging directories whose programs were killed. One that is in use is locked by its program (flock(2)).
enum UnfinishedWrites {
  private static let count = Atomic<Int>(0)

  /// Called with each directory in which something is staged: with the first, and then with one in 64, what killed
  /// programs have left there is removed. A directory of many entries is so not read for each write.
  static func removeNowAndThen(in parent: borrowing Descriptor) {
    guard (count.wrappingAdd(1, ordering: .relaxed).newValue - 1) % 64 == 0 else { return }
    // Others' leftovers are no reason to fail: they may belong to another user, or the directory may not be readable.
    guard let directory = try? parent.open(".", [.readOnly, .directory]) else { return }
    _ = try? remove(in: directory, olderThan: 60)
  }

  /// Removes what is in a directory, and returns how much. Calls in progress are left alone.
  ///
  /// - Parameter seconds: a directory that was just created is not locked yet, so a younger one stays.
  static func remove(in directory: borrowing Descriptor, olderThan seconds: Double) throws(Errno) -> Int {
    let names = try directory.names()
    var removed = 0
    for name in names where StagingName.isOne(name) {
      if try remove(name, in: directory, olderThan: seconds) { removed += 1 }
    }
    return removed
  }

  /// Removes an unfinished write. Returns `false` if it is in progress.
  private static func remove(
    _ name: PathName, in parent: borrowing Descriptor, olderThan seconds: Double
  ) throws(Errno) -> Bool {
    let status = try parent.status(of: name)
    // What is no directory is the link of a removal.
    guard status.type == .directory else {
      guard isOlder(status, seconds) else { return false }
      try parent.removeTree(name)
      return true
    }
    let directory = try parent.open(name, [.readOnly, .directory, .noFollow])
    do throws(Errno) {
      try directory.lock(isShared: false)
    } catch {
      if error == .wouldBlock { return false }
      throw error
    }
    guard try isOlder(directory.status(), seconds) else { return false }
    try parent.removeTree(name)
    return true
  }

  private static func isOlder(_ status: Status, _ seconds: Double) -> Bool {
    Date.now.timeIntervalSince1970 - Double(status.modification_seconds) > seconds
  }
}
