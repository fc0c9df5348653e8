import Contents
import FileProtection
import ProtectfsPolicy
import StoreFormat

/// Where the current record of a file or directory is: in memory if nobody else changes the store, otherwise on disk.
struct RecordSource: Sendable {
  let writers: WriterState

  private var isMemoryCurrent: Bool { writers == .sole }

  /// The record of a directory, if it need not be read.
  func directory(_ node: Node) -> Node.Directory? {
    isMemoryCurrent ? node.state.withLock { $0.directory } : nil
  }

  /// Takes a directory's record that was read, and returns the current one: the class may have been set meanwhile.
  func take(_ read: Node.Directory, of node: Node) -> Node.Directory {
    node.state.withLock { state in
      if isMemoryCurrent, let known = state.directory { return known }
      state.directory = read
      return read
    }
  }

  /// The open file of a node, if its record need not be read.
  func openFile(_ node: Node) -> ProtectedFile? { isMemoryCurrent ? node.file : nil }

  /// Whether the record of an open file must be read before another handle is added.
  func mustRenew(_ file: ProtectedFile) -> Bool { !isMemoryCurrent || file.isRefused }

  /// Whether an open file's record is the one that this process wrote or read, unless it is refused.
  func isOwn(_ node: Node) -> Bool { isMemoryCurrent && !node.state.withLock { $0.awaitsRecord } }

  /// Whether a record that says `found` is older than one that said `known`. Another writer may have lowered the class.
  func isOutdated(_ found: ProtectionClass, _ known: ProtectionClass) -> Bool {
    isMemoryCurrent && ProtectionPolicy.isRaise(from: found, to: known)
  }

  /// The class of a file's contents, its class key, and whether the class is explicit, if the record need not be read.
  func knownClass(of node: Node) -> (fileClass: ProtectionClass, keyID: ClassKeyID, isExplicit: Bool)? {
    guard isMemoryCurrent else { return nil }
    return node.state.withLock { state in
      guard let fileClass = state.cachedClass, let keyID = state.cachedKeyID else { return nil }
      return (fileClass, keyID, state.isExplicit)
    }
  }
}
