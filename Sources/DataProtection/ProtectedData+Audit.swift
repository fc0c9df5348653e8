import DataProtectionEssentials
import Foundation
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// What an audit of a tree has found.
public struct ProtectionAudit: Sendable {
  /// The items whose class is not the expected one, by their paths.
  public internal(set) var findings: [ProtectionFinding] = []
  /// The items that could not be examined, with the reasons. Their classes are not known.
  public internal(set) var failures: [(url: URL, error: CocoaError)] = []
  /// The number of files and directories that were examined.
  public internal(set) var examined = 0

  /// Whether every item was examined and has the expected class.
  public var isClean: Bool { findings.isEmpty && failures.isEmpty }
}

extension ProtectedData {
  /// Finds the files and directories of a tree that are not in a class, whatever has created them: a library that knows
  /// no classes, or another program. `protectfs class get -R --expect` does the same.
  ///
  /// ```swift
  /// let audit = try await ProtectedData.audit(documents, expecting: .complete)
  /// for finding in audit.findings where finding.kind != .different { log(finding.path) }
  /// ```
  ///
  /// Other mounts in the tree are examined too; what is not on a protectfs mount is a finding. Symbolic links have no
  /// class, and are not followed. Works in every lock state.
  /// - Parameters:
  ///   - tree: the directory, or a file.
  ///   - protection: the class that every item should have.
  ///   - progress: counts the files and directories; cancelling it ends the audit, like cancelling the task.
  /// - Throws: `CancellationError`, or the error of examining `tree` itself.
  public static func audit(
    _ tree: URL, expecting protection: FileProtectionType, progress: Progress? = nil
  ) async throws -> ProtectionAudit {
    let path = try FileManager.path(of: tree)
    let run = AuditRun(progress)
    let audit = try translating(.reading, path) { [expected = try protection.protectionClass] () throws(Errno) in
      try ClassAudit(expecting: expected, found: run.add)
    }
    return try await withTaskCancellationHandler {
      // On a thread of its own: a walk through a large tree would hold up other tasks.
      try await withCheckedThrowingContinuation { continuation in
        Thread(name: "audit") { continuation.resume(with: Result { try run.examine(path, audit) }) }.detach()
      }
    } onCancel: {
      run.cancel()
    }
  }
}

/// Gathers the results of an audit, which runs on two threads.
private final class AuditRun: Sendable {
  private let progress: Progress?
  private let state = RankedMutex(.commandProgress, (audit: ProtectionAudit(), isCancelled: false))

  init(_ progress: Progress?) {
    self.progress = progress
    // The total is known only at the end.
    progress?.totalUnitCount = -1
  }

  private var isCancelled: Bool { state.withLock { $0.isCancelled } || progress?.isCancelled ?? false }

  func cancel() { state.withLock { $0.isCancelled = true } }

  func add(_ finding: ProtectionFinding) { state.withLock { $0.audit.findings.append(finding) } }

  func examine(_ path: String, _ audit: ClassAudit) throws -> ProtectionAudit {
    try translating(.reading, path) { () throws(Errno) in try audit.examine(path) }
    count(path, nil)
    audit.visit(below: path, threads: 2, isCancelled: { [self] in isCancelled }, report: count)
    if isCancelled { throw CancellationError() }
    var result = state.withLock { $0.audit }
    result.findings.sort { $0.path < $1.path }
    result.failures.sort { $0.url.path < $1.url.path }
    progress?.totalUnitCount = Int64(result.examined + result.failures.count)
    return result
  }

  private func count(_ path: String, _ error: Errno?) {
    state.withLock { state in
      if let error {
        state.audit.failures.append((URL(fileURLWithPath: path), CocoaError(error, .reading, path: path)))
      } else {
        state.audit.examined += 1
      }
      progress?.completedUnitCount += 1
    }
  }
}
