import Foundation
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage

extension FileManager {
  /// What a change of a whole tree has come to.
  public struct ProtectionTreeResult: Sendable {
    /// How many files and directories are in the class now.
    public var changed = 0
    /// Those that could not be changed, and why.
    public var failures: [(url: URL, error: CocoaError)] = []
    /// Whether it was cancelled before its end.
    public var wasCancelled = false
  }

  /// Puts a directory and everything below it into a class. Symbolic links are not followed, and other mounts not entered.
  ///
  /// What fails is told and does not keep the rest from being changed; doing it again changes what is left.
  /// - Parameters:
  ///   - protection: the class.
  ///   - url: the directory, or a file.
  ///   - progress: counts the files and directories, and ends the change when it is cancelled.
  /// - Throws: as ``setProtection(_:ofItemAt:)`` for the directory itself.
  @discardableResult
  public func setProtection(
    _ protection: FileProtectionType, ofTreeAt url: URL, progress: Progress? = nil
  ) throws -> ProtectionTreeResult {
    try setProtection(protection, ofItemAt: url)
    let protectionClass = try protection.protectionClass
    let change = TreeChange(progress)
    change.count(try Self.path(of: url), nil)
    DirectoryTree.visit(
      try Self.path(of: url), threads: 2, isCancelled: { change.isCancelled }, report: change.count
    ) { (item, _) throws(Errno) in
      try item.setAttribute(PathName(ProtectionClass.attributeName), to: Array(protectionClass.name.utf8))
    }
    return change.result
  }
}

/// Counts for a change of a tree, which is done on two threads.
private final class TreeChange: Sendable {
  private let progress: Progress?
  private let state = Mutex(FileManager.ProtectionTreeResult())

  init(_ progress: Progress?) {
    self.progress = progress
    // How many there are is known at the end.
    progress?.totalUnitCount = -1
  }

  var isCancelled: Bool { progress?.isCancelled ?? false }

  var result: FileManager.ProtectionTreeResult {
    let wasCancelled = isCancelled
    return state.withLock { state in
      state.wasCancelled = wasCancelled
      if !wasCancelled { progress?.totalUnitCount = Int64(state.changed + state.failures.count) }
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
      progress?.completedUnitCount += 1
    }
  }
}
