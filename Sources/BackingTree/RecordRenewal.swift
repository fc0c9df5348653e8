import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// If others may write the store, an open file may be in another class by now. The record is read at each open, but an
// older descriptor follows the record of that time, and a lock would not find it.
extension BackingTree {
  /// Reads the records of all open files again if others may have changed them. From then on, a file is in its new
  /// class and has its new key. A file whose record cannot be read is closed to everyone, and so is a file whose record
  /// does not arrive in time, until it does.
  ///
  /// To be called before classes are locked, while their keys are available. Waits for operations on the files and for
  /// the store, but no longer than `patience`.
  /// - Returns: the nodes whose pages the kernel must drop whatever their class: files that are closed to everyone, and
  ///   files that are not open, which may be in any class by now.
  package func renewRecords(within patience: Duration) -> [UInt64] {
    guard options.writers != .sole else { return [] }
    let stale = nodes.closedAndCached()
    let renewal = Monitor(.recordRenewal, Renewal(remaining: nodes.openNodes()))
    do throws(Errno) {
      // The thread may hang in the store, and is then abandoned.
      try Thread(starting: "renewal") { [self] in renewAll(renewal) }.detach()
    } catch {
      renewAll(renewal)
    }
    let end = MonotonicClock.now + patience
    let (refused, late) = renewal.wait { state, deadline -> ([UInt64], [Node])? in
      guard state.remaining.isEmpty || MonotonicClock.now >= end else {
        deadline = end
        return nil
      }
      return (state.refused, state.remaining)
    }
    for node in late {
      node.file?.refuse(until: 0)
      log.error(
        "an open file is closed to everyone, because its record does not arrive from the backing store",
        metadata: ["inode": "\(node.identity.inode)"])
    }
    return stale + refused + late.map(\.number)
  }

  private struct Renewal {
    /// The thread works on the last one.
    var remaining: [Node]
    var refused: [UInt64] = []
  }

  private func renewAll(_ renewal: Monitor<Renewal>) {
    while let node = renewal.read({ $0.remaining.last }) {
      let isRefused = !renewOrRefuse(node)
      renewal.update { state in
        state.remaining.removeLast()
        if isRefused { state.refused.append(node.number) }
      }
    }
  }

  /// Renews a file's record. Returns `false` if the file was closed to everyone instead.
  private func renewOrRefuse(_ node: Node) -> Bool {
    guard let file = node.file else { return true }
    do throws(Errno) {
      try renew(file, node)
      return true
    } catch {
      log.error(
        "an open file is closed to everyone, because its record cannot be read again",
        metadata: ["backing": "\(backingPath(of: node))", "error": "\(error)"])
      file.refuse()
      return false
    }
  }

  private func renew(_ file: ProtectedFile, _ node: Node) throws(Errno) {
    let old = file.record.wrappedKey
    try renewRecord(of: file, node)
    // Without the class key only the previous file key is available, which an open file of class B keeps.
    guard file.record.wrappedKey != old, controller.allows(.open, on: file.fileClass) else { return }
    file.evict()
    // Open files of class B keep working after the lock, so the key is fetched while it is available.
    if file.fileClass.keepsOpenFiles { _ = try file.cipher(for: .open) }
  }
}
