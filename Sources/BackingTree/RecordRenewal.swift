import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// Where others may write the store, a file that is open here may be in another class by now. Its record is read whenever it is
// opened; but a descriptor from before goes on by the record of then, and a lock would not find it.
extension BackingTree {
  /// Reads the records of all open files again, where others may have changed them: a file is in its new class from then on,
  /// and has its new key. One whose record cannot be had is closed to everyone; and so is one of which the store has not told
  /// it in time, until it does.
  ///
  /// To be called before classes are locked, while their keys are there. Waits for operations on the files under way, and for the
  /// store, for so long at most.
  /// - Returns: nodes of which the kernel must drop the pages whatever the class: of files that are closed to everyone, and
  ///   of those not open, which may be in any class by now.
  package func renewRecords(within patience: Duration) -> [UInt64] {
    guard options.isShared else { return [] }
    let stale = nodes.closedAndCached()
    let renewal = Monitor(Renewal(remaining: nodes.openNodes()))
    do throws(Errno) {
      // It may be left behind in the store.
      try Thread(starting: "renewal") { [self] in renewAll(renewal) }.detach()
    } catch {
      renewAll(renewal)
    }
    let end = ContinuousClock.now + patience
    let (refused, late) = renewal.wait { state, deadline -> ([UInt64], [Node])? in
      guard state.remaining.isEmpty || .now >= end else {
        deadline = end
        return nil
      }
      return (state.refused, state.remaining)
    }
    for node in late {
      node.file?.refuse(until: 0)
      log.error(
        "an open file is closed to everyone, as the backing store does not tell its record",
        metadata: ["inode": "\(node.identity.inode)"])
    }
    return stale + refused + late.map(\.number)
  }

  private struct Renewal {
    /// The last one is at work.
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

  /// Returns false for a file that is closed to everyone.
  private func renewOrRefuse(_ node: Node) -> Bool {
    guard let file = node.file else { return true }
    do throws(Errno) {
      try renew(file, node)
      return true
    } catch {
      log.error(
        "an open file is closed to everyone, as its record cannot be read again",
        metadata: ["backing": "\(backingPath(of: node))", "error": "\(error)"])
      file.refuse()
      return false
    }
  }

  private func renew(_ file: ProtectedFile, _ node: Node) throws(Errno) {
    let old = file.record.wrappedKey
    try renewRecord(of: file, node)
    // Without the class key nothing but the key of before is to be had, which an open file of class B keeps.
    guard file.record.wrappedKey != old, controller.allows(.open, on: file.fileClass) else { return }
    file.evict()
    // What is open of class B goes on working after the lock, so its key is fetched while it can be.
    if file.fileClass == .completeUnlessOpen { _ = try file.cipher(for: .open) }
  }
}
