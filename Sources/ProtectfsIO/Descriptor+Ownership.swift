import CProtectfsIO
import ProtectfsLibc
import SystemPackage

// Mode, owner and times. The descriptor may have been opened with `O_PATH`, except where a comment says otherwise.
extension Descriptor {
  /// Sets permissions, set-ID and sticky bits (fchmod(2)). Fails for descriptors opened with `O_PATH`.
  package func setMode(_ mode: UInt32) throws(Errno) {
    try call("fchmod", store_fchmod(rawValue, mode))
  }

  /// Sets permissions through /proc, which also works for descriptors opened with `O_PATH`.
  package func setModeThroughPath(_ mode: UInt32) throws(Errno) {
    try call("chmod", unsafe PathName(descriptor: self).withCString { unsafe store_chmod($0, mode) })
  }

  /// Runs `body` with `permissions` temporarily added to the file's own. If they cannot be removed again, calls
  /// `notRestored` with the error and the file's own permissions.
  package func addingOwnerPermissions<Result: ~Copyable>(
    _ permissions: UInt32, notRestored: (Errno, UInt32) -> Void, _ body: () throws(Errno) -> Result
  ) throws(Errno) -> Result {
    let own = try status().permissions
    do throws(Errno) {
      try setModeThroughPath(own | permissions)
    } catch .notPermitted {
      // It belongs to another user.
      throw .permissionDenied
    }
    defer {
      do throws(Errno) { try setModeThroughPath(own) } catch { notRestored(error, own) }
    }
    return try body()
  }

  /// Sets the owner. `nil` leaves the user or group unchanged (fchownat(2)).
  package func setOwner(user: UInt32?, group: UInt32?) throws(Errno) {
    try call("fchownat", unsafe store_fchownat(rawValue, "", user ?? .max, group ?? .max, Self.emptyPath))
  }

  /// Sets the owner of a name in this directory. A symbolic link is not followed.
  package func setOwner(of name: PathName, user: UInt32?, group: UInt32?) throws(Errno) {
    try call(
      "fchownat",
      unsafe name.withCString { unsafe store_fchownat(rawValue, $0, user ?? .max, group ?? .max, AT_SYMLINK_NOFOLLOW) })
  }

  /// Sets the access and modification times (utimensat(2)).
  package func setTimes(access: TimeChange, modification: TimeChange) throws(Errno) {
    try call("utimensat", unsafe store_utimensat(rawValue, "", [access.value, modification.value], Self.emptyPath))
  }
}

/// A new value for one of a file's times.
package enum TimeChange: Sendable, Equatable {
  case leave
  case now
  case set(seconds: Int64, nanoseconds: Int64)

  /// As utimensat(2) takes it.
  fileprivate var value: timespec {
    switch self {
    // `UTIME_OMIT` and `UTIME_NOW`, which Glibc's module leaves out (bits/stat.h).
    case .leave: timespec(tv_sec: 0, tv_nsec: 0x3fff_fffe)
    case .now: timespec(tv_sec: 0, tv_nsec: 0x3fff_ffff)
    case .set(let seconds, let nanoseconds): timespec(tv_sec: Int(seconds), tv_nsec: Int(nanoseconds))
    }
  }
}
