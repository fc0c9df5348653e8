/// The state of the device, as one mounted file system sees it.
public enum LockState: String, CaseIterable, Sendable, Codable {
  /// Mounted, and not unlocked since.
  case beforeFirstUnlock
  /// The passcode was given; every class key is in memory.
  case unlocked
  /// Lock was asked for and announced; everything is still usable, and an unlock cancels it.
  case gracePeriod
  /// Locked; class CX is still usable.
  case locked
  /// Locked, and the period of class CX has passed.
  case inactive

  /// The extended attribute of a mount's root whose value is the state's raw value. It cannot be set, and is not listed.
  public static let attributeName = "user.protectfs.state"
}

/// What is in memory of a class's key, and so what can be done with the class.
public enum KeyAvailability: String, CaseIterable, Sendable, Codable {
  /// The whole key.
  case available
  /// The key is about to be wiped: only what the kernel still has to write back is accepted.
  case revoking
  /// Only the public half (class B): new files can be written, open ones finished.
  case publicOnly
  /// Nothing.
  case unavailable
}
