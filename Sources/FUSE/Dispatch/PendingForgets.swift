import ProtectfsIO
import Synchronization

/// What the kernel has forgotten and the daemon has not let go of yet: files whose last name is gone keep their space
/// until then.
///
/// FORGET comes through the device, in order with other requests that come from there. A request that comes through a
/// ring may overtake it, and find no space that the one before has freed.
package final class PendingForgets: Sendable {
  private struct Source {
    let device: RequestDevice
    let watch: DeviceWatch
  }

  /// How long to wait, in steps of 100 µs: a store may take long to close a file, or hang.
  private static let longestWait = 2000
  /// In how many steps in a row there must be nothing. A thread that has taken a request, and does not run, serves it
  /// only when it goes on.
  private static let calmSteps = 100

  private let source = RankedMutex<Source?>(.pendingForgets, nil)

  package init() {}

  func began(_ device: RequestDevice, _ watch: DeviceWatch) {
    source.withLock { $0 = Source(device: device, watch: watch) }
  }

  /// Waits until what the kernel has forgotten is let go of. To be called by a request that has found no space, before
  /// it tries once more.
  ///
  /// - Returns: whether there may have been something to wait for.
  package func wait() -> Bool {
    guard let worker = Worker.ofThread, worker.ringAnswer != nil, let source = source.withLock({ $0 }) else {
      return false
    }
    var (steps, calm) = (0, 0)
    while steps < Self.longestWait, calm < Self.calmSteps {
      calm = source.device.hasNewRequest(milliseconds: 0) || source.watch.isServing ? 0 : calm + 1
      Thread.sleep(microseconds: 100)
      steps += 1
    }
    return true
  }
}
