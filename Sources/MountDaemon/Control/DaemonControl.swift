import Cryptography
import KeyManagement
import ProtectfsClient
import ProtectfsPolicy
import StoreFormat

/// What the control socket asks of the daemon behind it. Calls come from several threads at once.
package protocol DaemonControl: AnyObject, Sendable {
  /// The user who mounted; this one and root may use the socket.
  var owner: UInt32 { get }

  /// The state of the mount.
  func status() -> DaemonStatus

  /// Locks; `nil` means the mount's own grace period. Returns when the lock has taken effect if `wait` is set.
  ///
  /// - Parameter includingInactive: class CX goes with the lock, and is waited for too.
  /// - Throws: `lockCancelled` when an unlock came while it waited.
  func lock(gracePeriod: Duration?, includingInactive: Bool, wait: Bool) throws(ControlError)

  /// Locks every class but `none`, open files of class B included, without a grace period; returns when that has taken
  /// effect.
  func lockAll() throws(ControlError)

  /// Returns when what the kernel was writing back has been written.
  func finishWrites() throws(ControlError)

  /// Begins an unlock, when the call arrives: it may wait for others before its secret is checked.
  func beginUnlock() -> UnlockBeginning

  /// Unlocks, or cancels a lock whose grace period runs. Changes nothing where the secret is wrong.
  ///
  /// - Parameter isCounted: whether a wrong passcode counts; `false` for one that a login program has accepted.
  /// - Throws: `unlockCancelled` when a lock was asked for after the beginning.
  func unlock(
    _ secret: borrowing UnlockSecret, _ beginning: UnlockBeginning, isCounted: Bool
  ) throws(ControlError)

  /// Replaces the passcode; `isCounted` as for ``unlock(_:_:isCounted:)``.
  func changePasscode(
    from secret: borrowing UnlockSecret, to newPasscode: consuming SecretBytes, isCounted: Bool
  ) throws(ControlError)

  /// Adds a protector.
  func addKey(_ new: consuming UnlockSecret, label: String, with secret: borrowing UnlockSecret) throws(ControlError)

  /// Removes the protector with that identity, 16 bytes.
  func removeKey(_ id: [UInt8], with secret: borrowing UnlockSecret) throws(ControlError)

  /// Makes the machine a host that asked for it with a pairing code, given as text.
  ///
  /// - Parameter classes: `nil` for those that it asked for.
  func addHost(
    _ code: borrowing SecretBytes, classes: [ProtectionClass]?, with secret: borrowing UnlockSecret
  ) throws(ControlError)

  /// Gives the host with that identity, 16 bytes, the keys of other classes than it has.
  func setHost(
    _ id: [UInt8], classes: [ProtectionClass], with secret: borrowing UnlockSecret
  ) throws(ControlError)

  /// Locks without a grace period, and has all other hosts do so. Returns the names of those who have not said so in
  /// time.
  func lockHosts(_ content: HostLockRecord.Content, within time: Duration) throws(ControlError) -> [String]

  /// Gives a class a new key, or finds one that a rotation cut short has left. The rotation is then run, once.
  func beginRotation(
    of fileClass: ProtectionClass, with secret: borrowing UnlockSecret
  ) throws(ControlError) -> any RotationControl

  /// Makes durable what was taken out of classes whose keys may be erased next, which may take long.
  func prepareErasure() throws(ControlError)

  /// Erases the key of a class, and gives it a new one.
  func erase(_ fileClass: ProtectionClass, with secret: borrowing UnlockSecret) throws(ControlError)

  /// Erases all keys of the store.
  func eraseAll() throws(ControlError)

  /// Has every event from now on delivered, the first being `monitoringBegan` with the state that they begin at.
  /// `deliver` returns at once, and may be called with locks held.
  func subscribe(_ deliver: @escaping @Sendable (DaemonEvent) -> Void) -> SubscriptionID

  /// Ends a subscription; nothing is delivered once this has returned.
  func unsubscribe(_ subscription: SubscriptionID)

  /// Has a client hold back the next lock that is announced with a grace period. `announced` is then told how long the
  /// lock waits at most; it returns at once, and may be called with locks held.
  func delayLock(_ announced: @escaping @Sendable (Duration) -> Void) -> LockDelayID

  /// Ends a delay, before the announcement or after it.
  func releaseDelay(_ delay: LockDelayID)
}

/// One client that may hold a lock back.
package struct LockDelayID: Sendable, Hashable {
  let number: UInt64
}

/// A rotation that was begun.
package protocol RotationControl: Sendable {
  /// Wraps the keys of all files of the class anew, and removes the old class key. Ends early, to be gone on with by
  /// the next rotation, when `report` returns false, and when the mount is locked.
  func run(_ report: @escaping (RotationStatus) -> Bool) throws(ControlError)
}

/// One listener among those of a daemon.
package struct SubscriptionID: Sendable, Hashable {
  let number: UInt64
}
