import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

extension FileManager {
  /// The result of changing a whole tree.
  public struct ProtectionTreeResult: Sendable {
    /// The number of files and directories that were changed to the class.
    public var changed = 0
    /// The items that could not be changed, with the reasons.
    public var failures: [(url: URL, error: CocoaError)] = []
    /// Whether the change was cancelled.
    public var wasCancelled = false
  }

  /// Sets the class of a directory and of everything below it. Symbolic links are not followed, and other mounts are
  /// not entered.
  ///
  /// A failure is recorded and does not stop the change of other items. Calling this again changes what is left.
  /// - Throws: as ``setProtection(_:ofItemAt:)`` for the directory itself.
  @discardableResult
  public func setProtection(_ protection: FileProtectionType, ofTreeAt url: URL) throws -> ProtectionTreeResult {
    try setProtection(protection, ofTreeAt: url, isCancelled: { false }, countItem: {})
  }

  /// The same, which can be cancelled.
  ///
  /// - Parameter countItem: called after each item, not concurrently.
  package func setProtection(
    _ protection: FileProtectionType, ofTreeAt url: URL, isCancelled: @escaping @Sendable () -> Bool,
    countItem: @escaping @Sendable () -> Void
  ) throws -> ProtectionTreeResult {
    try setProtection(protection, ofItemAt: url)
    let protectionClass = try protection.protectionClass
    let change = TreeChange(countItem)
    change.count(try Self.path(of: url), nil)
    DirectoryTree.visit(
      try Self.path(of: url), threads: 2, isCancelled: isCancelled, report: change.count
    ) { (item, _) throws(Errno) in
      try item.setAttribute(PathName(ProtectionClass.attributeName), to: Array(protectionClass.name.utf8))
    }
    return change.result(wasCancelled: isCancelled())
  }
}

/// Counts the results of changing a tree, which runs on two threads.
private final class TreeChange: Sendable {
  private let countItem: @Sendable () -> Void
  private let state = RankedMutex(.commandProgress, FileManager.ProtectionTreeResult())

  init(_ countItem: @escaping @Sendable () -> Void) {
    self.countItem = countItem
  }

  func result(wasCancelled: Bool) -> FileManager.ProtectionTreeResult {
    state.withLock { state in
      state.wasCancelled = wasCancelled
      return state
    }
  }

  func count(_ path: String, _ error: Errno?) {
    state.withLock { state in
      if let error {
        state.failures.append((URL(fileURLWithPath: path), CocoaError(error, .writing, path: path)))
      } else {
        state.changed += 1
      }
      countItem()
    }
  }
}
