import Glibc
import SystemPackage

extension Errno {
  /// `EKEYREVOKED`: the class key that a file is under was erased, reset or rotated away.
  package static var keyRevoked: Errno { Errno(rawValue: EKEYREVOKED) }
  /// `ENOKEY`: the keybag does not have the class key that a file is under; another one has.
  package static var noKey: Errno { Errno(rawValue: ENOKEY) }
}
