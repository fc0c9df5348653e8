import DataProtectionCore
import FUSE
import FileProtection
import SystemPackage

// Where others may write the store, a file that is open here may be in another class by now. Its record is read whenever it is
// opened; but a descriptor from before goes on by the record of then, and a lock would not find it.
extension ProtectedFileSystem {
  /// Reads the records of all open files again, where others may have changed them: a file is in its new class from then on,
  /// and has its new key. One whose record cannot be had is closed to everyone.
  ///
  /// To be called before classes are locked, while their keys are there. Waits for operations on the files under way.
  /// - Returns: nodes of which the kernel must drop the pages whatever the class: of files that are closed to everyone, and
  ///   of those not open, which may be in any class by now.
  package func renewRecords() -> [NodeID] {
    guard options.isShared else { return [] }
    var stale = nodes.closedAndCached()
    for node in nodes.openNodes() {
      guard let file = node.file else { continue }
      do throws(Errno) {
        try renew(file, node)
      } catch {
        log.error(
          "an open file is closed to everyone, as its record cannot be read again",
          metadata: ["backing": "\(backingPath(of: node))", "error": "\(error)"])
        file.refuse()
        stale.append(node.id)
      }
    }
    return stale
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
