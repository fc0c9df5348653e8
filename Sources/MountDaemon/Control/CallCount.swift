import ProtectfsClient
import ProtectfsIO

/// The calls of a kind that lasts, which could take all connections there are.
final class CallCount: Sendable {
  let limit: Int
  private let count = RankedMutex(.callCount, 0)

  init(limit: Int) {
    self.limit = limit
  }

  /// Counts one more; returns `false` where there are too many.
  func begin() -> Bool {
    count.withLock { count in
      guard count < limit else { return false }
      count += 1
      return true
    }
  }

  func end() {
    count.withLock { $0 -= 1 }
  }
}

extension ControlError {
  /// With a limit of 0, it is the system that has too many threads.
  static func tooManyStreams(_ limit: Int) -> ControlError {
    guard limit > 0 else { return ControlError(.failed, "\(noThread); try again when some have ended") }
    return ControlError(
      .failed, "too many clients listen, hold locks back or wait for one: \(limit); one of them must end first")
  }

  static func tooManyWaitForLock(_ limit: Int) -> ControlError {
    let reason = limit > 0 ? "\(limit) clients listen, hold locks back or wait" : noThread
    return ControlError(.failed, "the lock is announced, but cannot be waited for: \(reason)")
  }

  private static let noThread =
    "the daemon can start no thread, as its user (ulimit -u) or control group (pids.max) has too many"

  static func tooManySecrets(_ limit: Int) -> ControlError {
    ControlError(.failed, "\(limit) calls wait until their passcode is tried; try again when they have ended")
  }
}
