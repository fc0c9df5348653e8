import ProtectfsIO
import StoreCheck
import StoreFormat
import TreeCopy

/// Shows what a check finds, as it finds it: there may be more than fits into memory.
protocol FsckReport: CheckObserver {
  /// Ends the report; `nil` when the check could not go on.
  func finish(_ summary: CheckSummary?)
}

extension TreeProgress {
  /// The progress of a check, which looks at each name of the tree.
  fileprivate static func ofCheck(of backing: String) -> TreeProgress {
    let others: Set<PathName> = [PathName(NameEncoding.storeDirectory), "lost+found"]
    return TreeProgress("entries checked") { TreeTotal(of: backing, without: others, while: $0).entries }
  }

  fileprivate func show(_ summary: CheckSummary) {
    if summary.bytes == 0 { return show(summary.entries) }
    show(summary.entries, ", \(summary.bytes.bytes) read, \(rate(of: summary.bytes).bytes)/s")
  }
}

/// The report for people, and on a terminal how far the check is.
final class FsckLines: FsckReport {
  private let progress: TreeProgress
  private var underOtherKeys = 0

  init(of backing: String) { progress = .ofCheck(of: backing) }

  func found(_ finding: Finding) {
    progress.clear()
    if finding.defect == .classKeyUnknown { underOtherKeys += 1 }
    let place = finding.path ?? finding.backingPath
    print("\(finding.defect.severity.rawValue): \(place.description.printable): \(finding.description.printable)")
    if finding.path != nil { print("  backing file \(finding.backingPath)") }
  }

  func checked(_ summary: CheckSummary) { progress.show(summary) }

  func finish(_ summary: CheckSummary?) {
    progress.end()
    guard let summary else { return }
    var text = "\(summary.entries) entries, \(summary.errors) errors"
    if summary.errors > 0 { text += " (\(summary.errorsRepaired) repaired)" }
    if summary.bytes > 0 { text += ", \(summary.bytes.bytes) of contents read" }
    print("\(text), \(summary.notes) notes")
    if underOtherKeys > 0 {
      print(
        "\(underOtherKeys.files) under class keys that the keybag does not have; they are whole, and were left in their places. "
          + "'protectfs keybag restore' puts keybag.previous back where that has the keys, "
          + "'protectfs keybag import' adds those of a keybag that was exported later.")
    }
  }
}

/// The report for programs: one object, a finding a line.
final class FsckObject: FsckReport {
  private let progress: TreeProgress
  private var isFirst = true

  init(of backing: String) { progress = .ofCheck(of: backing) }

  private struct Item: Encodable {
    let code, severity, backingPath, message: String
    let path, movedTo: String?
    let isRepaired: Bool
  }

  private struct Totals: Encodable {
    let entries, errors, errorsRepaired, notes: Int
    let bytesRead: UInt64
  }

  func found(_ finding: Finding) {
    progress.clear()
    let movedTo: String? = if case .moved(let place) = finding.outcome { place } else { nil }
    let item = Item(
      code: finding.defect.rawValue, severity: finding.defect.severity.rawValue,
      backingPath: finding.backingPath.description, message: finding.description, path: finding.path?.description,
      movedTo: movedTo, isRepaired: finding.isRepaired)
    print(isFirst ? "{\"findings\":[" : ",")
    isFirst = false
    print((try? JSONOutput.line(item)) ?? "null", terminator: "")
  }

  func checked(_ summary: CheckSummary) { progress.show(summary) }

  func finish(_ summary: CheckSummary?) {
    progress.end()
    let start = isFirst ? "{\"findings\":[" : ""
    let totals = summary.map {
      Totals(
        entries: $0.entries, errors: $0.errors, errorsRepaired: $0.errorsRepaired, notes: $0.notes,
        bytesRead: $0.bytes)
    }
    print("\(start)],\"totals\":\((try? JSONOutput.line(totals)) ?? "null")}")
  }
}
