import ProtectfsIO
import SystemPackage

/// Where findings go to: counted, repaired where that was asked for, and told.
final class Findings {
  private(set) var summary = CheckSummary()
  private let observer: any CheckObserver
  /// `nil` when nothing is to be changed.
  let repair: Repair?

  init(observer: any CheckObserver, repair: Repair?) {
    self.observer = observer
    self.repair = repair
  }

  /// Counts one entry of the tree.
  func countEntry() {
    summary.entries += 1
    observer.checked(entries: summary.entries)
  }

  /// Tells a defect, after `mend` has done what can be done about it.
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
