import CSystemCalls
import ProtectfsIO
import SystemPackage

/// The result of a function in CSystemCalls; throws the error that it stands for.
@discardableResult
func check<Value: SignedInteger>(_ result: Value) throws(Errno) -> Value {
  guard result >= 0 else { throw Errno(rawValue: CInt(truncatingIfNeeded: -result)) }
  return result
}

/// The error of a call; `nil` if it succeeded.
func failure(of call: () throws(Errno) -> Void) -> Errno? {
  do throws(Errno) {
    try call()
    return nil
  } catch {
    return error
  }
}

typealias FileStatus = calls_status

// The system calls on paths. Only `status(following:)`, `truncate` and `setMode` follow symbolic links.
extension PathName {
  /// A name in the directory of this path.
  func appending(_ name: String) -> PathName { appending(bytes: Array(name.utf8)) }

  func appending(bytes: [UInt8]) -> PathName { PathName(bytes: Array(self.bytes) + [UInt8(ascii: "/")] + bytes) }

  func status() throws(Errno) -> FileStatus {
    var status = FileStatus()
    try check(unsafe withCString { unsafe calls_lstat($0, &status) })
    return status
  }

  /// Whether a file with this name exists.
  var exists: Bool { (try? status()) != nil }

  func truncate(to length: Int) throws(Errno) {
    try check(unsafe withCString { unsafe calls_truncate($0, off_t(length)) })
  }

  func setMode(_ mode: UInt32) throws(Errno) {
    try check(unsafe withCString { unsafe calls_chmod($0, mode) })
  }

  func setOwner(user: UInt32, group: UInt32) throws(Errno) {
    try check(unsafe withCString { unsafe calls_chown($0, user, group) })
  }

  func setTimes(seconds: Int64, nanoseconds: Int64 = 0) throws(Errno) {
    try check(unsafe withCString { unsafe calls_utimens($0, seconds, nanoseconds) })
  }

  func rename(to target: PathName, flags: RenameFlags = []) throws(Errno) {
    try check(
      unsafe withCString { from in unsafe target.withCString { unsafe calls_rename(from, $0, flags.rawValue) } })
  }

  func link(as target: PathName) throws(Errno) {
    try check(unsafe withCString { from in unsafe target.withCString { unsafe calls_link(from, $0) } })
  }

  func makeSymbolicLink(to target: PathName) throws(Errno) {
    try check(unsafe withCString { path in unsafe target.withCString { unsafe calls_symlink($0, path) } })
  }

  func symbolicLinkTarget() throws(Errno) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = try check(
      unsafe bytes.withUnsafeMutableBytes { buffer in
        unsafe withCString {
          unsafe calls_readlink($0, buffer.baseAddress!.assumingMemoryBound(to: CChar.self), buffer.count)
        }
      })
    return Array(bytes[..<count])
  }

  func unlink() throws(Errno) {
    try check(unsafe withCString { unsafe calls_unlink($0) })
  }

  func makeDirectory(mode: UInt32 = 0o755) throws(Errno) {
    try check(unsafe withCString { unsafe calls_mkdir($0, mode) })
  }

  func removeDirectory() throws(Errno) {
    try check(unsafe withCString { unsafe calls_rmdir($0) })
  }

  func unmount(isLazy: Bool) throws(Errno) {
    try check(unsafe withCString { unsafe calls_unmount($0, isLazy ? 1 : 0) })
  }

  /// Ends the connection of a FUSE mount, whether or not it can be unmounted (`MNT_FORCE`).
  func abortConnection() throws(Errno) {
    try check(unsafe withCString { unsafe calls_force_unmount($0) })
  }

  /// Creates an empty file or a fifo (mknod(2)).
  func makeNode(mode: UInt32) throws(Errno) {
    try check(unsafe withCString { unsafe calls_mknod($0, mode) })
  }

  /// The names in a directory, without `.` and `..`, sorted.
  func names() throws(Errno) -> [PathName] {
    var bytes = [UInt8](repeating: 0, count: 1 << 21)
    let count = try check(
      unsafe bytes.withUnsafeMutableBytes { buffer in
        unsafe withCString {
          unsafe calls_names($0, buffer.baseAddress!.assumingMemoryBound(to: CChar.self), buffer.count)
        }
      })
    return bytes[..<count].split(separator: 0).map { PathName(bytes: $0) }
      .sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
  }
}

// Extended attributes.
extension PathName {
  func extendedAttribute(_ name: PathName) throws(Errno) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 1 << 16)
    let count = try check(
      unsafe bytes.withUnsafeMutableBytes { buffer in
        unsafe withCString { path in
          unsafe name.withCString { unsafe calls_getxattr(path, $0, buffer.baseAddress, buffer.count) }
        }
      })
    return Array(bytes[..<count])
  }

  func setExtendedAttribute(_ name: PathName, to value: [UInt8], mode: AttributeMode = .createOrReplace) throws(Errno) {
    try check(
      unsafe value.withUnsafeBytes { value in
        unsafe withCString { path in
          unsafe name.withCString { unsafe calls_setxattr(path, $0, value.baseAddress, value.count, mode.rawValue) }
        }
      })
  }

  func removeExtendedAttribute(_ name: PathName) throws(Errno) {
    try check(unsafe withCString { path in unsafe name.withCString { unsafe calls_removexattr(path, $0) } })
  }

  func extendedAttributeNames() throws(Errno) -> [String] {
    var bytes = [UInt8](repeating: 0, count: 1 << 16)
    let count = try check(
      unsafe bytes.withUnsafeMutableBytes { buffer in
        unsafe withCString {
          unsafe calls_listxattr($0, buffer.baseAddress!.assumingMemoryBound(to: CChar.self), buffer.count)
        }
      })
    return bytes[..<count].split(separator: 0).map { String(decoding: $0, as: UTF8.self) }.sorted()
  }
}
