import KeyManagement
import ProtectfsIO

/// What a rotation has to do with a lock: it has the keybag key in memory.
enum RotationState {
  case none
  /// It has begun, and opens the keybag.
  case opening
  /// It holds the opened keybag, which is wiped by this; that returns `false` where it is being used.
  case holding(@Sendable () -> Bool)
  /// A lock has wiped that. The rotation ends when it notices.
  case wiped
}

// One rotation at a time, while all keys are in memory anyway.
extension LockMachine {
  /// Begins a rotation, before it has the keybag key.
  func beginRotation() -> Bool {
    monitor.update { state in
      guard case .none = state.rotation, Self.mayRotate(state) else { return false }
      state.rotation = .opening
      return true
    }
  }

  /// Has a lock wipe the keybag key of the rotation. Returns `false` where it is not to be held any more: the caller
  /// drops it.
  func holdRotationKey(_ wipe: @escaping @Sendable () -> Bool) -> Bool {
    monitor.update { state in
      guard Self.mayRotate(state) else { return false }
      state.rotation = .holding(wipe)
      return true
    }
  }

  /// Whether the keybag key may still be held.
  var mayRotate: Bool {
    monitor.read { state in
      if case .wiped = state.rotation { false } else { Self.mayRotate(state) }
    }
  }

  /// The keybag key has gone.
  func endRotation() {
    let ended = monitor.update { state in
      defer { state.rotation = .none }
      return state.rotation
    }
    // What it held goes without the state locked.
    _ = consume ended
  }

  /// Takes the keybag key out of memory, which a rotation holds. Where the rotation is changing the keybag, that is
  /// waited for, but a store that does not answer only for as long as `patience`; returns whether the key has gone.
  ///
  /// - Parameter awaitingEnd: the rotation itself is waited for too, as long. One that has unwrapped a file's key is
  ///   not to find the successor of an erased class key, and to wrap it again under that.
  func wipeRotationKey(within patience: Duration, awaitingEnd: Bool) -> Bool {
    let isWiped = wipeHeldKey()
    if isWiped, !awaitingEnd { return true }
    let end = MonotonicClock.now + patience
    let hasEnded = monitor.wait { (state, deadline) -> Bool? in
      if case .none = state.rotation { return true }
      deadline = end
      return end <= MonotonicClock.now ? false : nil
    }
    return isWiped || hasEnded || wipeHeldKey()
  }

  private func wipeHeldKey() -> Bool {
    switch monitor.read({ $0.rotation }) {
    case .none, .wiped: return true
    case .opening: return false
    case .holding(let wipe):
      guard wipe() else { return false }
      monitor.update { state in
        if case .holding = state.rotation { state.rotation = .wiped }
      }
      return true
    }
  }

  private static func mayRotate(_ state: State) -> Bool {
    (state.lockState == .unlocked || state.lockState == .gracePeriod) && !state.isLocking && state.destruction == nil
      && !state.isStopping
  }
}
