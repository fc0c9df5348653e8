import Foundation

extension FileManager {
  /// Sets the class of a directory and of everything below it, and counts what is done.
  ///
  /// - Parameters:
  ///   - protection: the class.
  ///   - url: the directory, or a file.
  ///   - progress: counts the files and directories; cancelling it ends the change.
  /// - Throws: as ``setProtection(_:ofItemAt:)`` for the directory itself.
  @discardableResult
  public func setProtection(
    _ protection: FileProtectionType, ofTreeAt url: URL, progress: Progress? = nil
  ) throws -> ProtectionTreeResult {
    // The total is known only at the end.
    progress?.totalUnitCount = -1
    let result = try setProtection(protection, ofTreeAt: url, isCancelled: { progress?.isCancelled ?? false }) {
      progress?.completedUnitCount += 1
    }
    if !result.wasCancelled { progress?.totalUnitCount = Int64(result.changed + result.failures.count) }
    return result
  }
}
