import ProtectfsLibc
import SystemPackage

// Contents that are not what was written. The kernel's file systems have these errors for it (EFSBADCRC and
// EFSCORRUPTED in fs/xfs/xfs_linux.h). Programs are answered EIO.
extension Errno {
  /// A page is not authentic.
  package static var notAuthentic: Errno { .badMessage }
  /// A page that was written is a hole.
  package static var missingPage: Errno { Errno(rawValue: EUCLEAN) }

  /// What is wrong with the contents, if that is what the error says.
  package var damage: String? {
    switch self {
    case .notAuthentic: "a page is not what was written"
    case .missingPage: "a page is missing"
    default: nil
    }
  }
}
