/// The only place that decides what may be done with a file's contents: class × state → key, key × operation → access.
///
/// Metadata (stat, readdir, rename, link, chmod, fsync, reading a class, setting a directory's class) needs no
/// class key and is not in the table: these operations always work.
public enum ProtectionPolicy {
  /// An operation on the contents of a file.
  public enum Operation: Int, CaseIterable, Sendable {
    /// Open an existing file, in any mode.
    case open
    /// Create a file in a directory of the class.
    case create
    /// Remove a name of a file. Allowed where one of the class can be created: programs that remove a file before they
    /// create its successor would lose it otherwise.
    case remove
    /// Read through a handle, or fill a page of a mapping.
    case read
    /// Write through a handle, or write dirty pages back for the kernel.
    case write
    /// Change the length or the holes of a file.
    case resize
    /// Read or write an encrypted extended attribute.
    case attribute
    /// Move a file out of the class.
    case rewrapFrom
    /// Move a file into the class.
    case rewrapTo
  }

  /// The answer of the table.
  public enum Access: Sendable {
    /// The operation is allowed.
    case allowed
    /// Allowed if a handle, opened while that was allowed, still holds the file's key.
    case ifKeyHeld
    /// Refused with EACCES.
    case denied
  }

  /// How much of a class key is in memory in a lock state.
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

  /// Whether an operation is allowed with this much of a class key.
  public static func access(for operation: Operation, with key: KeyAvailability) -> Access {
    switch (key, operation) {
    case (.available, _): .allowed
    case (.revoking, .write): .allowed
    case (.publicOnly, .create), (.publicOnly, .remove), (.publicOnly, .rewrapTo): .allowed
    case (.publicOnly, .read), (.publicOnly, .write), (.publicOnly, .resize): .ifKeyHeld
    case (.revoking, _), (.publicOnly, _), (.unavailable, _): .denied
    }
  }

  /// Whether an operation on a file of the class is allowed in a lock state.
  public static func access(
    for operation: Operation, on fileClass: ProtectionClass, in state: LockState
  ) -> Access {
    access(for: operation, with: keyAvailability(of: fileClass, in: state))
  }

  /// Whether a change of class is a *raise*: in some lock state the old class's key is available and the new one's is
  /// not. The file then gets a new key, since an older record with the old key would open the file in that state. Class
  /// B counts as A here, since its closed files cannot be opened while locked.
  package static func isRaise(from old: ProtectionClass, to new: ProtectionClass) -> Bool {
    LockState.allCases.contains { state in
      keyAvailability(of: old, in: state) == .available && keyAvailability(of: new, in: state) != .available
    }
  }

  /// Whether something in a class is locked where it would not be in another. Open files of class B are not.
  package static func protects(_ new: ProtectionClass, moreThan old: ProtectionClass) -> Bool {
    isRaise(from: old, to: new) || new == .complete && old.keepsOpenFiles
  }

  /// The classes whose keys leave memory on the way from one state to another.
  package static func classesLosingKey(from old: LockState, to new: LockState) -> [ProtectionClass] {
    ProtectionClass.allCases.filter {
      keyAvailability(of: $0, in: old) == .available && keyAvailability(of: $0, in: new) != .available
    }
  }
}

// What follows from the table for one class. Requests read these, so they are not computed from it; a test compares
// both.
extension ProtectionClass {
  /// Whether the class's key can be wiped while the file system is mounted.
  package var losesKey: Bool { self != .none && self != .completeUntilFirstUserAuthentication }

  /// Whether files that are open when the class is locked can be read and written until they are closed. In the other
  /// classes that lose their key, open files stop working at the lock.
  package var keepsOpenFiles: Bool { self == .completeUnlessOpen }

  /// Whether the class's key is a key pair. Its public half is always available, and creates files while the class is
  /// locked.
  package var hasKeyPair: Bool { self == .completeUnlessOpen }

  /// Whether the class's key is wrapped under a key of the device alone. The other classes also need a protector.
  package var isUnlockedByDevice: Bool { self == .none }
}
