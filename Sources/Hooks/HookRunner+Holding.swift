import Logging
import ProtectfsClient
import ProtectfsIO

// Locks wait until the scripts before them are done.
extension HookRunner {
  /// Registers for each lock, and releases it when the scripts before it are done. A daemon that takes no registration
  /// is asked again.
  func holdLocksBack() {
    while !monitor.read(\.isEnding) {
      do throws(ControlError) {
        try holdEachLock()
      } catch {
        monitor.update { $0.hasAskedToHold = true }
        guard !waits(.seconds(1), until: \.isEnding) else { return }
        log.warning("locks do not wait for hooks", metadata: ["error": "\(error)"])
      }
    }
  }

  private func holdEachLock() throws(ControlError) {
    // Before it is asked for: what is announced after that waits.
    var last = monitor.read(\.announcedLocks)
    var delay = try register()
    monitor.update { $0.hasAskedToHold = true }
    while !monitor.read(\.isEnding) {
      var announced = delay
      let longest: Duration
      do throws(ControlError) {
        longest = try announced.waitForAnnouncement()
      } catch {
        if monitor.read(\.isEnding) { return }
        throw error
      }
      let end = ContinuousClock.now + longest
      // For the next one at once: this one may be cancelled at any time.
      delay = try register()
      if let lock = announcedLock(after: last) {
        last = lock
        waitForScripts(before: lock, until: end)
      }
      announced.release()
    }
  }

  /// The number of the lock that this process was asked about. The event comes beside that; `nil` where it does not.
  private func announcedLock(after last: Int) -> Int? {
    _ = waits(.seconds(1)) { $0.isEnding || $0.isAnnounced && $0.announcedLocks > last }
    return monitor.read { $0.isAnnounced && $0.announcedLocks > last ? $0.announcedLocks : nil }
  }

  private func waitForScripts(before lock: Int, until end: ContinuousClock.Instant) {
    monitor.update { $0.held = (lock, end) }
    _ = waits(max(.zero, end - .now)) { $0.isEnding || $0.finishedPreLock >= lock || $0.hasEnded(lock) }
    monitor.update { $0.held = nil }
  }

  private func register() throws(ControlError) -> LockDelay {
    let delay = try DaemonConnection(to: mount).registerLockDelay()
    let canceller = try delay.canceller()
    // The one before goes without the lock: that closes a socket.
    let (_, isEnding) = monitor.update { state in
      defer { state.holding = canceller }
      return (state.holding, state.isEnding)
    }
    if isEnding { canceller.cancel() }
    return delay
  }
}
