import ProtectfsIO
import SystemPackage

/// A defect at one place.
package struct Finding: Sendable, Equatable {
  package let defect: Defect
  /// The place in the backing directory, which is `/`.
  package let backingPath: PathName
  /// The place as the mount shows it; `nil` if its name cannot be decrypted.
  package let path: PathName?
  /// Details beyond the defect's meaning; may be empty.
  package let detail: String
  package let outcome: Outcome

  /// What the check did about the defect.
  package enum Outcome: Sendable, Equatable {
    /// Nothing: no repair was requested, or none is possible.
    case left
    /// The defect was removed, and nothing else.
    case fixed
    /// What had the defect was moved here, below the backing directory.
    case moved(to: String)
    /// The repair failed, and nothing was changed.
    case failed(Errno)
  }

  package var isRepaired: Bool {
    switch outcome {
    case .left, .failed: false
    case .fixed, .moved: true
    }
  }

  /// The finding in one line, for users.
  package var description: String {
    var text = defect.meaning
    if !detail.isEmpty { text += " (\(detail))" }
    switch outcome {
    case .left: break
    case .fixed: text += "; repaired"
    case .moved(let place): text += "; moved to \(place)"
    case .failed(let error): text += "; could not be repaired: \(error)"
    }
    return text
  }
}

/// The result of a check.
package struct CheckSummary: Sendable, Equatable {
  /// The number of files, directories and other entries that were examined.
  package var entries = 0
  /// The bytes of contents that were read.
  package var bytes: UInt64 = 0
  package var errors = 0
  package var errorsRepaired = 0
  package var notes = 0

  package init() {}

  mutating func count(_ finding: Finding) {
    switch finding.defect.severity {
    case .note: notes += 1
    case .error:
      errors += 1
      if finding.isRepaired { errorsRepaired += 1 }
    }
  }
}

/// Receives the findings and the progress of a check. The check passes each finding on at once and does not keep it.
package protocol CheckObserver: AnyObject {
  func found(_ finding: Finding)
  /// Called after each entry, with the numbers so far.
  func checked(_ summary: CheckSummary)
}
