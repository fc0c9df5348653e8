import CProtectfsIO
import SystemPackage

/// Tells of files in a directory that were replaced, or written and closed (inotify(7)). The kernel wakes who waits; what
/// is done to the files costs nothing more.
package struct DirectoryWatch: ~Copyable, Sendable {
  private let queue: Descriptor

  /// Watches a directory from now on.
  ///
  /// - Throws: `EMFILE` and `ENOSPC` where the user has as many watches as the system gives one.
  package init(_ directory: borrowing Descriptor) throws(Errno) {
    queue = Descriptor(owning: try check(linux_watch_directory(directory.rawValue)))
  }

  /// Waits until a file of that name was replaced or written.
  ///
  /// - Throws: `ESTALE` when the directory is gone.
  package func wait(for name: PathName) throws(Errno) {
    _ = try check(unsafe name.withCString { unsafe linux_wait_for_change(queue.rawValue, $0) })
  }
}
