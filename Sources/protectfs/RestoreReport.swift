import Glibc
import SystemPackage

/// What a restore has done, or would do.
final class RestoreReport {
  /// The summary for programs.
  private struct Summary: Encodable {
    var copied = 0
    var replaced = 0
    var alreadyThere = 0
    var different = 0
    var failed = 0
    var directories = 0
    var links = 0
    var others = 0
    var bytes: UInt64 = 0
    var isDryRun = false
    var isComplete = false
  }

  /// What is done with one file, directory or whatever else.
  enum Deed: String {
    /// A file that was missing.
    case copied = "copy"
    /// An orphan, or with `--overwrite` whatever was there.
    case replaced = "replace"
    case directory = "make directory"
    /// One more name of a file that was copied.
    case link = "link"
    /// A symbolic link, a fifo, a socket or a device.
    case other = "make"
  }

  private let isJSON: Bool
  private let progress: ProgressLine
  private var summary = Summary()
  private var onlyStatus: ExitStatus?

  init(isJSON: Bool, isDryRun: Bool) {
    self.isJSON = isJSON
    progress = ProgressLine()
    summary.isDryRun = isDryRun
  }

  /// So many bytes more were copied.
  func copied(_ count: Int) {
    summary.bytes += UInt64(count)
    progress.show("\((summary.copied + summary.replaced).files), \(summary.bytes.bytes)")
  }

  func did(_ deed: Deed, _ path: String) {
    switch deed {
    case .copied: summary.copied += 1
    case .replaced: summary.replaced += 1
    case .directory: summary.directories += 1
    case .link: summary.links += 1
    case .other: summary.others += 1
    }
    if summary.isDryRun {
      if !isJSON { print("\(deed.rawValue)\t\(path.printable)") }
    } else {
      copied(0)
    }
  }

  func found() { summary.alreadyThere += 1 }

  /// Something else is there, and was left alone.
  func differs(_ path: String) {
    summary.different += 1
    tell("\(path.printable) is there and different; it was left alone, '--overwrite' replaces it")
  }

  func failed(_ failure: CommandFailure) {
    summary.failed += 1
    onlyStatus = summary.failed == 1 ? failure.status : nil
    tell(failure.message)
  }

  private func tell(_ message: String) {
    progress.clear()
    CommandFailure.report(message)
  }

  /// Says what came of it.
  ///
  /// - Throws: when something was not brought back; where that is one of one, its own status.
  func finish(_ ending: CommandFailure?) throws {
    progress.clear()
    summary.isComplete = ending == nil && summary.failed == 0 && summary.different == 0
    if isJSON {
      try JSONOutput.showLine(summary)
    } else {
      print(sentence)
    }
    if let ending { throw ending }
    guard !summary.isComplete else { return }
    let done = summary.copied + summary.replaced + summary.alreadyThere + summary.directories + summary.links
    if let onlyStatus, done + summary.others + summary.different == 0 {
      throw CommandFailure(onlyStatus, "nothing was restored")
    }
    var reasons: [String] = []
    if summary.failed > 0 { reasons.append("\(summary.failed) could not be restored") }
    if summary.different > 0 { reasons.append("\(summary.different) were left alone") }
    throw CommandFailure(.partial, reasons.joined(separator: ", "))
  }

  private var sentence: String {
    let verb = summary.isDryRun ? "would be " : ""
    return "\(summary.copied.files) \(verb)copied, \(summary.replaced) \(verb)replaced, "
      + "\(summary.alreadyThere) there already (\(summary.bytes.bytes))."
  }
}
