import CProtectfsIO
import Glibc
import SystemPackage

// Mode, owner and times. The descriptor may have been opened with `O_PATH`, except where a comment says otherwise.
extension Descriptor {
  /// Sets permissions, set-ID and sticky bits (fchmod(2)). Fails for descriptors opened with `O_PATH`.
  package func setMode(_ mode: UInt32) throws(Errno) {
    _ = try check(linux_fchmod(rawValue, mode))
  }

  /// Sets permissions through /proc, which also works for descriptors opened with `O_PATH`.
  package func setModeThroughPath(_ mode: UInt32) throws(Errno) {
    _ = try check(unsafe PathName(descriptor: self).withCString { unsafe linux_chmod($0, mode) })
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
    _ = try check(unsafe linux_fchownat(rawValue, "", user ?? .max, group ?? .max, Self.emptyPath))
  }

  /// Sets the owner of a name in this directory. A symbolic link is not followed.
  package func setOwner(of name: PathName, user: UInt32?, group: UInt32?) throws(Errno) {
    _ = try check(
      unsafe name.withCString {
        unsafe linux_fchownat(rawValue, $0, user ?? .max, group ?? .max, AT_SYMLINK_NOFOLLOW)
      })
  }

  /// Sets the access and modification times (utimensat(2)).
  package func setTimes(access: TimeChange, modification: TimeChange) throws(Errno) {
    _ = try check(
      unsafe linux_utimensat(
        rawValue, "", access.seconds, access.nanoseconds, modification.seconds, modification.nanoseconds,
        Self.emptyPath))
  }
}

/// A new value for one of a file's times.
package enum TimeChange: Sendable, Equatable {
  case leave
  case now
  case set(seconds: Int64, nanoseconds: Int64)

  var seconds: Int64 {
    if case .set(let seconds, _) = self { seconds } else { 0 }
  }

  var nanoseconds: Int64 {
    switch self {
    case .leave: Int64(LINUX_TIME_OMIT)
    case .now: Int64(LINUX_TIME_NOW)
    case .set(_, let nanoseconds): nanoseconds
    }
  }
}
