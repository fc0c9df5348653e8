import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

// What clients ask for: locks, delays of locks, unlocks.
extension LockMachine {
  /// What has become of a lock that was asked for.
  enum LockRequest: Equatable {
    /// It was announced, or brought forward.
    case announced(after: Int)
    /// One that comes no later is announced, or being carried out.
    case underWay(after: Int)
    /// Nothing was unlocked.
    case unnecessary

    /// How many locks had taken effect when one is to come; for ``LockMachine/waitUntilLocked(after:)``.
    var count: Int? {
      switch self {
      case .announced(let count), .underWay(let count): count
      case .unnecessary: nil
      }
    }
  }

  /// Asks for the lock after a grace period, the mount's own if `nil`; a shorter one replaces one that is running, and
  /// one of zero ends its delays too. While destroyed keys are taken out of memory, it waits for that as well.
  ///
  /// - Parameter includingInactive: class CX goes right after classes A and B, or at once if these have gone.
  func requestLock(after period: Duration?, includingInactive: Bool = false) -> LockRequest {
    let period = period ?? gracePeriod
    return change { state in
      let now = now()
      state.lockRequests += 1
      if includingInactive {
        state.isInactivityDue = true
        state.expiresAt = state.expiresAt.map { min($0, now) }
      }
      guard state.lockState == .unlocked || state.lockState == .gracePeriod else { return .unnecessary }
      let endsDelays = period == .zero && state.delays.count > 0
      if state.locksTo == .locked { return .underWay(after: state.completedLocks) }
      if let earlier = state.locksAt, earlier <= now + period, !endsDelays {
        return .underWay(after: state.completedLocks)
      }
      if endsDelays { state.delays.end() }
      let isFirst = state.lockState == .unlocked
      enter(.gracePeriod, &state)
      state.locksAt = now + period
      if isFirst {
        state.announcements += state.delays.announce(at: now, gracePeriod: period)
      } else {
        state.delays.shorten(at: now, gracePeriod: period)
      }
      note(.willBecomeUnavailable(classes: Self.lockedClasses, seconds: period.inSeconds), &state)
      return .announced(after: state.completedLocks)
    }
  }

  /// Has a client hold back the next lock that is announced; `announced` is told how long at most, and returns at once.
  func delayLock(_ announced: @escaping LockDelays.Announced) -> LockDelayID {
    monitor.update { $0.delays.register(announced) }
  }

  /// Ends a client's delay, wherever it is.
  func releaseDelay(_ delay: LockDelayID) {
    // What it was to be told by closes its socket when it goes: not with the state locked.
    let announced = monitor.update { $0.delays.release(delay) }
    withExtendedLifetime(announced) {}
  }

  /// Waits until a lock has taken effect since there were `count` of them. Returns what it has left undone, or `nil`
  /// when an unlock cancelled it.
  func waitUntilLocked(after count: Int) -> LockOutcome? {
    defer { makeAnnouncements() }
    return monitor.wait { state, _ -> LockOutcome?? in
      if state.completedLocks > count { return state.lockOutcome }
      return switch state.lockState {
      case .gracePeriod: nil
      case .unlocked: .some(nil)
      case .beforeFirstUnlock, .locked, .inactive: state.lockOutcome.ongoing
      }
    }
  }

  /// Waits until class CX has gone too. Returns what the lock has left undone, or `nil` when an unlock came first.
  func waitUntilInactive() -> LockOutcome? {
    defer { makeAnnouncements() }
    return monitor.wait { state, _ -> LockOutcome?? in
      switch state.lockState {
      case .unlocked, .gracePeriod: .some(nil)
      case .locked: nil
      case .beforeFirstUnlock, .inactive: state.lockOutcome
      }
    }
  }

  /// Has no unlock take effect that has begun: a lock of everything is asked for.
  func cancelUnlocks() {
    monitor.update { $0.lockRequests += 1 }
  }

  /// Waits until no class is being locked, or about to be. Returns `false` where a lock was asked for since the unlock
  /// began: its secret need not be checked any more.
  func waitUntilUnlockable(_ beginning: UnlockBeginning) -> Bool {
    monitor.wait { (state, _) -> Bool? in
      guard state.lockRequests == beginning.lockRequests else { return false }
      return mayUnlock(state) ? true : nil
    }
  }

  /// A lock that is due has only been kept waiting by a destruction: it is not for an unlock to cancel.
  private func mayUnlock(_ state: State) -> Bool {
    guard !state.isLocking, !state.isMountGone, state.destruction == nil else { return false }
    guard state.lockState == .gracePeriod, let takesEffectAt = state.takesEffectAt else { return true }
    return takesEffectAt > now() || state.isStopping
  }

  /// Begins an unlock, before its secret is checked: that takes about a second, in which a lock may be asked for.
  func beginUnlock() -> UnlockBeginning {
    UnlockBeginning(lockRequests: monitor.read { $0.lockRequests })
  }

  /// What has become of an unlock.
  enum UnlockResult {
    case unlocked
    /// Classes are being locked, and the end of that may wait for the caller. Nothing has changed.
    case locking
    /// A lock was asked for after the unlock had begun. Nothing has changed.
    case cancelled
  }

  /// Takes the keys of an unlock, and cancels a lock that was asked for before it and has not begun to lock classes.
  ///
  /// - Parameters:
  ///   - missing: classes of which a host has no keys, and which stay as before the first unlock.
  ///   - adopt: goes on with the keybag that the keys are of, where that is another one. It waits for nothing.
  func unlock(
    _ keys: [ProtectionClass: [HeldKey]], _ beginning: UnlockBeginning, without missing: [ProtectionClass] = [],
    adopting adopt: () -> Void = {}
  ) -> UnlockResult {
    change { state in
      guard state.lockRequests == beginning.lockRequests else { return .cancelled }
      guard mayUnlock(state) else { return .locking }
      let previous = state.lockState
      adopt()
      for (fileClass, held) in keys { controller.install(held, for: fileClass) }
      for fileClass in ProtectionClass.allCases where !missing.contains(fileClass) {
        controller.setAvailability(ProtectionPolicy.keyAvailability(of: fileClass, in: .unlocked), of: fileClass)
      }
      enter(.unlocked, &state)
      state.locksAt = nil
      state.delays.end()
      state.isInactivityDue = false
      state.expiresAt = nil
      goToRest(after: nil, &state)
      let gained = Self.classesGained(from: previous).filter { !missing.contains($0) }
      if !gained.isEmpty { note(.didBecomeAvailable(classes: gained), &state) }
      return .unlocked
    }
  }

  /// The classes that an unlock brings back; in the grace period, those whose loss was announced.
  private static func classesGained(from state: LockState) -> [ProtectionClass] {
    if state == .gracePeriod { return lockedClasses }
    return ProtectionClass.allCases.filter {
      ProtectionPolicy.keyAvailability(of: $0, in: state) != .available
    }
  }
}

/// When an unlock began, in the order of locks and unlocks: it does not undo a lock that was asked for later.
package struct UnlockBeginning: Sendable {
  /// ``LockMachine/State/lockRequests`` at that time.
  let lockRequests: Int
}
