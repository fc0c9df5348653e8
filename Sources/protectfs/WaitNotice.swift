import ProtectfsIO

/// Says on standard error that a command waits for a daemon that was stopped or frozen, which neither answers nor
/// locks. The command goes on waiting.
final class WaitNotice: Sendable {
  /// How long a command waits in silence.
  private static let patience = Duration.seconds(5)

  private let hasEnded = Monitor(.commandState, false)

  /// Watches a daemon until ``end()``; nothing where its process is not known.
  init(for process: Int32?) {
    guard let process else { return }
    let watch = try? Thread(starting: "wait notice") { [self] in
      while !ends(within: Self.patience) {
        guard let words = Self.words(for: process) else { continue }
        CommandFailure.report(words)
        return
      }
    }
    watch?.detach()
  }

  /// The command waits no more.
  func end() {
    hasEnded.update { $0 = true }
  }

  private func ends(within time: Duration) -> Bool {
    let end = ContinuousClock.now + time
    return hasEnded.wait { hasEnded, deadline in
      if hasEnded { return true }
      deadline = end
      return ContinuousClock.now >= end ? false : nil
    }
  }

  /// What is said of a process that was stopped or frozen; `nil` where it was not.
  private static func words(for process: Int32) -> String? {
    switch Process.state(of: process) {
    case "T":
      "the daemon (process \(process)) is stopped (SIGSTOP), and is waited for; 'kill -CONT \(process)' has it go on"
    case "t": "the daemon (process \(process)) is stopped by a debugger, and is waited for"
    default:
      // The state of a frozen process is that of one that sleeps.
      ControlGroups(of: process).freezer.map { freezer in
        "the daemon (process \(process)) is frozen with its control group, and is waited for; "
          + "'echo \(freezer.thaw) >\(freezer.file.shellQuoted)' has it go on"
      }
    }
  }
}
