import ProtectfsPolicy
import SystemPackage

/// What may be done with a file of a class, as the documents have it. Written down a second time, apart from the
/// daemon's own table.
enum ModelContract {
  /// A file can be opened, truncated by name, rewrapped, and its attributes be read and written.
  static func opens(_ fileClass: ProtectionClass, in state: LockState) -> Bool {
    switch fileClass {
    case .none: true
    case .completeUntilFirstUserAuthentication: state != .beforeFirstUnlock
    case .completeWhenUserInactive: state == .unlocked || state == .gracePeriod || state == .locked
    case .complete, .completeUnlessOpen: state == .unlocked || state == .gracePeriod
    }
  }

  /// A file can be made in a directory of the class; an existing one can be put into it.
  static func creates(_ fileClass: ProtectionClass, in state: LockState) -> Bool {
    fileClass == .completeUnlessOpen || opens(fileClass, in: state)
  }

  /// A descriptor or mapping that was opened before goes on working.
  static func transfers(_ fileClass: ProtectionClass, in state: LockState) -> Bool {
    fileClass == .completeUnlessOpen || opens(fileClass, in: state)
  }

  /// Moving to a class gives a file another key: there is a state in which the new class is not readable and the old was.
  static func isRaise(from old: ProtectionClass, to new: ProtectionClass) -> Bool {
    LockState.allCases.contains { opens(old, in: $0) && !opens(new, in: $0) }
  }

  /// The class that a file takes when it is renamed over another; `nil` where it keeps its own.
  static func classKept(by replaced: ModelInode?, for inode: ModelInode) -> ProtectionClass? {
    guard let replaced, replaced.kind == .file, inode.kind == .file, replaced.isExplicit, !inode.isExplicit else {
      return nil
    }
    return replaced.fileClass
  }
}
