import ProtectfsLibc
import SystemPackage

extension Errno {
  /// `EKEYREVOKED`: the class key of a file was erased, reset or rotated away.
  package static var keyRevoked: Errno { Errno(rawValue: EKEYREVOKED) }
  /// `ENOKEY`: the keybag does not have the class key of a file; another keybag has.
  package static var noKey: Errno { Errno(rawValue: ENOKEY) }
}
