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
    /// What the threads that take requests from the device serve.
    let served: [ServedRequest]

    var mayHold: Bool { device.hasRequest || served.contains { !$0.isIdle } }
  }

  /// How long to wait, in steps of 100 µs: a store may take long to close a file, or hang.
  private static let longestWait = 10_000

  private let source = RankedMutex<Source?>(.pendingForgets, nil)

  package init() {}

  func began(_ device: RequestDevice, _ served: [ServedRequest]) {
    source.withLock { $0 = Source(device: device, served: served) }
  }

  /// Waits until what the kernel has forgotten is let go of. To be called by a request that has found no space, before
  /// it tries once more.
  ///
  /// - Returns: whether anything may have been let go of since the request began.
  package func wait() -> Bool {
    guard let worker = Worker.ofThread, worker.ringAnswer != nil, let source = source.withLock({ $0 }) else {
      return false
    }
    var steps = 0
    while source.mayHold, steps < Self.longestWait {
      Thread.sleep(microseconds: 100)
      steps += 1
    }
    return steps > 0 || worker.hasBeenOvertaken
  }
}
