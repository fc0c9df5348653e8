import ProtectfsIO
import SystemPackage

/// One defect at one place.
package struct Finding: Sendable, Equatable {
  package let defect: Defect
  /// Where it is in the backing directory, which is `/`.
  package let backingPath: PathName
  /// The same place as the mount shows it; `nil` where its name cannot be told.
  package let path: PathName?
  /// What there is to say beside the defect's meaning; may be empty.
  package let detail: String
  package let outcome: Outcome

  /// What was done about it.
  package enum Outcome: Sendable, Equatable {
    /// Nothing: it was not asked for, or there is nothing to be done.
    case left
    /// It is gone, and nothing else with it.
    case fixed
    /// What had it is now here, below the backing directory.
    case moved(to: String)
    /// The repair failed, and all is as it was.
    case failed(Errno)
  }

  package var isRepaired: Bool {
    switch outcome {
    case .left, .failed: false
    case .fixed, .moved: true
    }
  }

  /// The finding in a line, for people.
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

/// What a check came to.
package struct CheckSummary: Sendable, Equatable {
  /// Files, directories and all else that was looked at.
  package var entries = 0
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

/// Receives what a check finds, and how far it is. Findings come as they are made: nothing is kept of them.
package protocol CheckObserver: AnyObject {
  func found(_ finding: Finding)
  /// Called after each entry with the number of them so far.
  func checked(entries: Int)
}
