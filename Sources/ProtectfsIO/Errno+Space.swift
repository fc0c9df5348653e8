import SystemPackage

extension Errno {
  /// Whether there is no space left, on the file system or for the user (`ENOSPC`, `EDQUOT`).
  package var isOutOfSpace: Bool { self == .noSpace || self == .diskQuotaExceeded }
}
