import ProtectfsPolicy
import SystemPackage

/// What may be done with a file of a class, according to the documents. Written independently of the daemon's own
/// table.
enum ModelContract {
  /// A file can be opened, truncated by name and rewrapped, and its attributes can be read and written.
  static func opens(_ fileClass: ProtectionClass, in state: LockState) -> Bool {
    switch fileClass {
    case .none: true
    case .completeUntilFirstUserAuthentication: state != .beforeFirstUnlock
    case .completeWhenUserInactive: state == .unlocked || state == .gracePeriod || state == .locked
    case .complete, .completeUnlessOpen: state == .unlocked || state == .gracePeriod
    }
  }

  /// A file can be created in a directory of the class, and an existing one put into it.
  static func creates(_ fileClass: ProtectionClass, in state: LockState) -> Bool {
    fileClass == .completeUnlessOpen || opens(fileClass, in: state)
  }

  /// A descriptor or mapping that was opened before keeps working.
  static func transfers(_ fileClass: ProtectionClass, in state: LockState) -> Bool {
    fileClass == .completeUnlessOpen || opens(fileClass, in: state)
  }

  /// A change to the class gives a file a new key: in some state the new class is not readable and the old one was.
  static func isRaise(from old: ProtectionClass, to new: ProtectionClass) -> Bool {
    LockState.allCases.contains { opens(old, in: $0) && !opens(new, in: $0) }
  }

  /// The class that a file hands over to what replaces it.
  static func explicitClass(of inode: ModelInode) -> ProtectionClass? {
    inode.kind == .file && inode.isExplicit ? inode.fileClass : nil
  }

  /// The class that a file takes over which gets the name of one that has left it. `nil` if its own protects more, or
  /// is B while the other is locked.
  static func successor(
    of left: ProtectionClass?, inheriting own: ProtectionClass, in state: LockState
  ) -> ProtectionClass? {
    guard let left, rank(left) >= rank(own), own != .completeUnlessOpen || creates(left, in: state) else { return nil }
    return left
  }

  private static func rank(_ fileClass: ProtectionClass) -> Int {
    let order: [ProtectionClass] = [
      .none, .completeUntilFirstUserAuthentication, .completeWhenUserInactive, .completeUnlessOpen, .complete,
    ]
    return order.firstIndex(of: fileClass)!
  }
}
