/// The one place that says what may be done with a file's contents: class × state → key, key × operation → answer.
///
/// Metadata (stat, readdir, rename, unlink, link, chmod, fsync, reading a class, setting a directory's class) needs no
/// class key and is not in the table: it always works.
public enum ProtectionPolicy {
  /// What a caller wants to do with the contents of a file.
  public enum Operation: Int, CaseIterable, Sendable {
    /// Open an existing file, in any mode.
    case open
    /// Create a file in a directory of the class.
    case create
    /// Read through a handle, also to fill a page of a mapping.
    case read
    /// Write through a handle; also the kernel's write-back of dirty pages.
    case write
    /// Change the length or the holes of a file.
    case resize
    /// Read or write an encrypted extended attribute.
    case attribute
    /// Take a file out of the class.
    case rewrapFrom
    /// Put a file into the class.
    case rewrapTo
  }

  /// The answer of the table.
  public enum Access: Sendable {
    /// Do it.
    case allowed
    /// Do it if a handle, opened while that was allowed, still holds the file's key.
    case ifKeyHeld
    /// Refuse with EACCES.
    case denied
  }

  /// What is in memory of a class's key in a state of the device.
  public static func keyAvailability(of fileClass: ProtectionClass, in state: LockState) -> KeyAvailability {
    switch (fileClass, state) {
    case (.none, _), (_, .unlocked), (_, .gracePeriod): .available
    case (.completeUnlessOpen, _): .publicOnly
    case (_, .beforeFirstUnlock): .unavailable
    case (.completeUntilFirstUserAuthentication, _): .available
    case (.completeWhenUserInactive, .locked): .available
    case (.completeWhenUserInactive, .inactive), (.complete, .locked), (.complete, .inactive): .unavailable
    }
  }

  /// Whether an operation is allowed with that much of a class's key.
  public static func access(for operation: Operation, with key: KeyAvailability) -> Access {
    switch (key, operation) {
    case (.available, _): .allowed
    case (.revoking, .write): .allowed
    case (.publicOnly, .create), (.publicOnly, .rewrapTo): .allowed
    case (.publicOnly, .read), (.publicOnly, .write), (.publicOnly, .resize): .ifKeyHeld
    case (.revoking, _), (.publicOnly, _), (.unavailable, _): .denied
    }
  }

  /// Whether an operation on a file of the class is allowed in a state of the device.
  public static func access(
    for operation: Operation, on fileClass: ProtectionClass, in state: LockState
  ) -> Access {
    access(for: operation, with: keyAvailability(of: fileClass, in: state))
  }

  /// Whether a change of class is a *raise*: the old class's key was available in a state of the device in which the new
  /// one's is not. Then the file gets a new key, as older records with the old one would open it in that state. Class B
  /// counts as A here, since its closed files cannot be opened while locked.
  package static func isRaise(from old: ProtectionClass, to new: ProtectionClass) -> Bool {
    LockState.allCases.contains { state in
      keyAvailability(of: old, in: state) == .available && keyAvailability(of: new, in: state) != .available
    }
  }
}

extension ProtectionClass {
  /// The class's key can go while the file system is mounted, so plaintext must not stay behind in the daemon's memory.
  package var losesKey: Bool { self != .none && self != .completeUntilFirstUserAuthentication }

  /// Open files of the class stop working at a lock.
  package var isRevoked: Bool { losesKey && self != .completeUnlessOpen }
}
