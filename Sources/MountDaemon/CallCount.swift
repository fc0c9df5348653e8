import DataProtectionCore
import Synchronization

/// The connections on which a client listens, holds a lock back or has a class key rotated. They last, so that they could
/// take all connections there are.
final class StreamCount: Sendable {
  private let limit: Int
  private let count = Mutex(0)

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
  static func tooManyStreams(_ limit: Int) -> ControlError {
    ControlError(.failed, "too many clients listen or hold locks back: \(limit); one of them must end first")
  }
}
