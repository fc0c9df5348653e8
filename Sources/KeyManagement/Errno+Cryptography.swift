import Cryptography
import SystemPackage

extension Errno {
  /// What a caller of a file system sees of a failure of cryptography: `EIO` for a key or data that are damaged, for
  /// good; `ENOMEM` where libcrypto itself could not, which says nothing of them.
  package init(_ error: CryptographyError) {
    switch error {
    case .wrongKey, .notAuthentic, .invalidLength, .invalidPublicKey: self = .ioError
    case .library: self = .noMemory
    }
  }
}
