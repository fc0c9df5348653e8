import ProtectfsIO
import Synchronization
import SystemPackage

/// SIGINT, SIGTERM and SIGHUP of a command that puts something away before it ends.
///
/// While it prepares, it ends at once. While it works, the work is asked to end; a second signal does not wait.
final class Interruption: Sendable {
  private let isWorking = Atomic(false)
  private let wanted = Atomic(false)

  /// Keeps the signals from this thread and those it starts, and waits for them. Before any other thread is started.
  ///
  /// - Throws: `EAGAIN` if no thread can be started.
  init() throws(Errno) {
    Process.blockEndingSignals()
    try Thread.require(1)
    Thread(name: "signals") { [self] in
      // It needs none, and a sandbox that the others enter does not take them away.
      try? Privileges.keep([])
      _ = Process.waitForEndingSignal()
      if isWorking.load(ordering: .relaxed) {
        wanted.store(true, ordering: .relaxed)
        _ = Process.waitForEndingSignal()
      }
      Process.exitAtOnce(ExitStatus.interrupted.rawValue)
    }.detach()
  }

  /// Whether the work should end.
  var isWanted: Bool { wanted.load(ordering: .relaxed) }

  /// From now on the work is asked to end, and ends by itself.
  func beginWork() { isWorking.store(true, ordering: .relaxed) }
}
