import KeyManagement
import ProtectfsIO
import ProtectfsPolicy

// Changes of keys while the machine runs: keys that were destroyed, others in their place, rotations.
extension LockMachine {
  /// Takes keys out of memory that were destroyed, from everyone who uses them; returns when that is done.
  func destroy(_ destruction: Destruction) {
    monitor.wait { (state, _) -> Void? in
      guard state.destruction == nil || state.isStopping else { return nil }
      state.destruction = destruction
      return ()
    }
    // A machine that has stopped does nothing any more: its daemon is ending.
    monitor.wait { (state, _) -> Void? in state.destruction == nil || state.isStopping ? () : nil }
    makeAnnouncements()
  }

  /// Takes every class but `none` from everyone, with open files of class B, as before the first unlock. Returns when
  /// that is done.
  func lockEverything() { destroy(Self.destructionOfAll) }

  /// The same with class `none`, for a mount that is to have no keys any more.
  func withholdEverything() {
    let all = ProtectionClass.allCases
    destroy(Destruction(classes: all, newState: .beforeFirstUnlock, withheld: all) { [:] })
  }

  /// That of every class that an unlock brings back.
  static var destructionOfAll: Destruction {
    Destruction(classes: ProtectionClass.allCases.filter { $0 != .none }, newState: .beforeFirstUnlock) { [:] }
  }

  /// Enters the state in which no unlock has been, whatever lock was announced.
  func finish(_ classes: [ProtectionClass], enter newState: LockState, _ state: inout State) {
    let lost = classes.filter { ProtectionPolicy.keyAvailability(of: $0, in: state.lockState) == .available }
    enter(newState, &state)
    state.completedLocks += 1
    state.locksAt = nil
    state.delays.end()
    state.expiresAt = nil
    goToRest(after: nil, &state)
    if !lost.isEmpty { note(.didBecomeUnavailable(classes: lost), &state) }
  }

  /// Takes other keys of classes in place of those in memory; of classes that have none in memory now, or are just
  /// losing them, none. Does not wait: a lock may be waiting for the caller.
  func replaceKeys(_ keys: [ProtectionClass: [HeldKey]]) {
    monitor.update { state in
      let lost = state.destruction?.classes ?? []
      install(keys.filter { !lost.contains($0.key) }, in: state.locksTo ?? state.lockState)
    }
  }

  func install(_ keys: [ProtectionClass: [HeldKey]], in lockState: LockState) {
    for (fileClass, held) in keys
    where ProtectionPolicy.keyAvailability(of: fileClass, in: lockState) == .available {
      controller.install(held, for: fileClass)
    }
  }
}
