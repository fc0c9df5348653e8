import Glibc
import ProtectfsIO
import Synchronization

/// SIGINT, SIGTERM and SIGHUP of a command that has something to put away before it ends.
///
/// While it prepares, it is put away at once. While it works, the work is asked to end; a second signal does not wait.
final class Interruption: Sendable {
  private struct State {
    var isWorking = false
    var isWanted = false
    var isEnding = false
    var putAway: (@Sendable () -> Void)?
  }

  private let state = Mutex(State())

  /// Keeps the signals from this thread and those it starts from now on. Before any other thread is started.
  static func block() { Process.blockEndingSignals() }

  /// Begins to wait for the signals, which were blocked.
  init() {
    Thread(name: "signals") { [self] in
      while true { arrived(Process.waitForEndingSignal()) }
    }.detach()
  }

  /// Whether the work should end.
  var isWanted: Bool { state.withLock { $0.isWanted } }

  /// From now on the work is asked to end, and ends by itself.
  func beginWork() { state.withLock { $0.isWorking = true } }

  /// What is to be done before the process ends.
  func onEnd(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.putAway = body } }

  /// From now on there is nothing to be done before the process ends. Does not return if it is being done.
  func disarm() {
    let isEnding = state.withLock { state in
      state.putAway = nil
      return state.isEnding
    }
    while isEnding { pause() }
  }

  private func arrived(_ signal: Int32) {
    let putAway: (@Sendable () -> Void)? = state.withLock { state in
      if state.isWorking && !state.isWanted {
        state.isWanted = true
        return nil
      }
      state.isEnding = true
      return state.putAway ?? {}
    }
    guard let putAway else { return }
    putAway()
    _exit(ExitStatus.interrupted.rawValue)
  }
}
