import ProtectfsIO
import SystemPackage

/// Counts, repairs (if requested) and reports findings.
final class Findings {
  private(set) var summary = CheckSummary()
  private let observer: any CheckObserver
  /// `nil` if nothing may be changed.
  let repair: Repair?

  init(observer: any CheckObserver, repair: Repair?) {
    self.observer = observer
    self.repair = repair
  }

  /// Counts one entry of the tree.
  func countEntry() {
    summary.entries += 1
    observer.checked(summary)
  }

  /// Counts contents that were read.
  func countBytes(_ count: UInt64) {
    summary.bytes += count
    observer.checked(summary)
  }

  /// Reports a defect, after `mend` has repaired it if possible.
  func report(
    _ defect: Defect, at place: Place, _ detail: String = "",
    mend: (Repair) throws(Errno) -> Finding.Outcome = { (_) in .left }
  ) {
    var outcome = Finding.Outcome.left
    if let repair {
      do throws(Errno) { outcome = try mend(repair) } catch { outcome = .failed(error) }
    }
    let finding = Finding(
      defect: defect, backingPath: place.backingPath, path: place.path, detail: detail, outcome: outcome)
    summary.count(finding)
    observer.found(finding)
  }
}
