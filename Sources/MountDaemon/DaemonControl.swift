import Cryptography
import DataProtection

/// What the control socket asks of the daemon behind it. Calls come from several threads at once.
package protocol DaemonControl: AnyObject, Sendable {
  /// The user who mounted; this one and root may use the socket.
  var owner: UInt32 { get }

  /// The state of the mount.
  func status() -> DaemonStatus

  /// Locks; `nil` means the mount's own grace period. Returns when the lock has taken effect if `wait` is set.
  ///
  /// - Throws: `lockCancelled` when an unlock came while it waited.
  func lock(gracePeriod: Duration?, wait: Bool) throws(ControlError)

  /// Unlocks, or cancels a lock whose grace period runs. Changes nothing where the secret is wrong.
  func unlock(_ secret: consuming UnlockSecret) throws(ControlError)

  /// Replaces the passcode.
  func changePasscode(from secret: consuming UnlockSecret, to newPasscode: consuming SecretBytes) throws(ControlError)

  /// Has every event from now on delivered. `deliver` returns at once, and may be called with locks held.
  func subscribe(_ deliver: @escaping @Sendable (DaemonEvent) -> Void) -> SubscriptionID

  /// Ends a subscription; nothing is delivered once this has returned.
  func unsubscribe(_ subscription: SubscriptionID)
}

/// What opens a store.
package enum UnlockSecret: ~Copyable, Sendable {
  /// What the user knows, as UTF-8.
  case passcode(SecretBytes)
  /// The text of the recovery key, as it was typed.
  case recoveryKey(SecretBytes)
}

/// One listener among those of a daemon.
package struct SubscriptionID: Sendable, Hashable {
  let number: UInt64
}
