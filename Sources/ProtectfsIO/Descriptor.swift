import CProtectfsIO
import ProtectfsLibc
import SystemPackage

/// An open file descriptor, closed when the value is destroyed.
package struct Descriptor: ~Copyable, Sendable {
  /// The kernel's number of the descriptor.
  package let rawValue: CInt

  /// Takes ownership of an open descriptor.
  package init(owning rawValue: CInt) {
    self.rawValue = rawValue
  }

  deinit {
    // Nothing can be done about a failed close(2): Linux has freed the number by then (close(2), "Dealing with error
    // returns"). Where it matters, fsync(2) checks write-back.
    LockOrder.requireCallsAllowed("close")
    _ = store_close(rawValue)
  }

  /// Returns the number without closing the descriptor.
  package consuming func release() -> CInt {
    let rawValue = rawValue
    discard self
    return rawValue
  }

  /// Closes the descriptor, and reports what its file system says then: on FUSE, and on a file of a server, that what
  /// was written could not be taken (close(2)).
  package consuming func closeReporting() throws(Errno) {
    let number = release()
    guard store_close(number) < 0, errno != EINTR else { return }
    throw Errno(rawValue: errno)
  }

  /// Opens a path. A relative path starts at the working directory (openat(2)). `O_CLOEXEC` is always set.
  package static func open(_ path: PathName, _ flags: OpenFlags, mode: UInt32 = 0) throws(Errno) -> Descriptor {
    try open(path, flags, mode: mode, in: AT_FDCWD)
  }

  /// Opens a path without access (`O_PATH`) if the kernel knows all of it, so that no file system is waited for
  /// (openat2(2), `RESOLVE_CACHED`, Linux 5.12).
  ///
  /// - Throws: `EAGAIN` if it does not, another error where there is no such call.
  package static func openCached(_ path: PathName, followsLink: Bool = true) throws(Errno) -> Descriptor {
    let flags = followsLink ? 0 : O_NOFOLLOW
    return Descriptor(owning: try check(unsafe path.withCString { unsafe linux_open_cached($0, flags) }))
  }

  /// Opens a name in this directory (openat(2)).
  package func open(_ name: PathName, _ flags: OpenFlags, mode: UInt32 = 0) throws(Errno) -> Descriptor {
    try Self.open(name, flags, mode: mode, in: rawValue)
  }

  private static func open(
    _ path: PathName, _ flags: OpenFlags, mode: UInt32, in directory: CInt
  ) throws(Errno) -> Descriptor {
    let flags = flags.rawValue | O_CLOEXEC
    return Descriptor(
      owning: try call("openat", unsafe path.withCString { unsafe store_openat(directory, $0, flags, mode) }))
  }
}

extension Descriptor {
  /// Duplicates a descriptor, such as one of the standard streams (fcntl(2), `F_DUPFD_CLOEXEC`).
  package init(duplicating number: CInt) throws(Errno) {
    self.init(owning: try call("fcntl", fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)))
  }

  /// Makes all further transfers bypass the page cache, or not (fcntl(2), `O_DIRECT`), as with ``OpenFlags/direct``.
  package func transferDirectly(_ isDirect: Bool = true) throws(Errno) {
    // The flags that can be set are set anew: access times are kept by whoever has opened it so (O_NOATIME).
    let kept = fcntl(rawValue, F_GETFL) & OpenFlags.keepAccessTime.rawValue
    try call("fcntl", fcntl(rawValue, F_SETFL, kept | (isDirect ? OpenFlags.direct.rawValue : 0)))
  }

  /// Has the file system do what it does whenever a descriptor of the file is closed; a network file system sends what
  /// was written (close(2)).
  ///
  /// - Throws: the error of that.
  package func flush() throws(Errno) {
    try Descriptor(duplicating: rawValue).closeReporting()
  }

  /// Makes this number refer to the open file of another descriptor. Calls in progress complete on the old file
  /// (dup3(2)).
  package func stand(for other: borrowing Descriptor) throws(Errno) {
    try call("dup3", store_dup3(other.rawValue, rawValue, O_CLOEXEC))
  }
}

/// The flags of open(2).
package struct OpenFlags: OptionSet, Sendable {
  package let rawValue: CInt

  package init(rawValue: CInt) {
    self.rawValue = rawValue
  }

  /// The flags of a literal. An option set's own initialiser is generic, and other modules call it as such.
  package init(arrayLiteral flags: OpenFlags...) {
    rawValue = flags.reduce(0) { $0 | $1.rawValue }
  }

  package static let readOnly = OpenFlags(rawValue: O_RDONLY)
  package static let writeOnly = OpenFlags(rawValue: O_WRONLY)
  package static let readWrite = OpenFlags(rawValue: O_RDWR)
  package static let create = OpenFlags(rawValue: O_CREAT)
  package static let exclusive = OpenFlags(rawValue: O_EXCL)
  package static let truncate = OpenFlags(rawValue: O_TRUNC)
  package static let append = OpenFlags(rawValue: O_APPEND)
  package static let directory = OpenFlags(rawValue: O_DIRECTORY)
  package static let noFollow = OpenFlags(rawValue: O_NOFOLLOW)
  package static let nonBlocking = OpenFlags(rawValue: O_NONBLOCK)
  /// `O_NOATIME`, which Glibc's module leaves out (asm-generic/fcntl.h).
  package static let keepAccessTime = OpenFlags(rawValue: 0o1000000)
  /// `O_DIRECT`, which Glibc's module leaves out too: transfers bypass the page cache (asm/fcntl.h).
  #if arch(arm64)
    package static let direct = OpenFlags(rawValue: 0o200000)
  #else
    package static let direct = OpenFlags(rawValue: 0o40000)
  #endif
  /// `O_PATH`, which Glibc's module leaves out (asm-generic/fcntl.h).
  package static let path = OpenFlags(rawValue: 0o10000000)
}
