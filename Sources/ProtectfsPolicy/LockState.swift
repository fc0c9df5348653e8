/// The lock state of the device, as one mounted file system sees it. Later versions may add others.
@nonexhaustive
public enum LockState: String, CaseIterable, Sendable, Codable {
  /// Mounted and not unlocked since.
  case beforeFirstUnlock
  /// The passcode was entered; every class key is in memory.
  case unlocked
  /// A lock was requested and announced. Everything is still usable, and an unlock cancels the lock.
  case gracePeriod
  /// Locked; class CX is still usable.
  case locked
  /// Locked, and the period of class CX has passed.
  case inactive

  /// The extended attribute of a mount's root whose value is the raw value of the state. It cannot be set, and is not
  /// listed.
  public static let attributeName = "user.protectfs.state"
}

/// How much of a class key is in memory, which determines what can be done with the class. Later versions
/// may add others.
@nonexhaustive
public enum KeyAvailability: String, CaseIterable, Sendable, Codable {
  /// The whole key.
  case available
  /// The key is about to be wiped: only data that the kernel still has to write back is accepted.
  case revoking
  /// Only the public half (class B): new files can be written, and open ones finished.
  case publicOnly
  /// Nothing.
  case unavailable
}
