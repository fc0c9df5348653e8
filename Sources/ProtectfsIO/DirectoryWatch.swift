import CProtectfsIO
import SystemPackage

/// Reports files in a directory that were replaced, or written and closed (inotify(7)). The kernel wakes the waiting
/// thread; operations on the files cost nothing more.
package struct DirectoryWatch: ~Copyable, Sendable {
  private let queue: Descriptor

  /// Starts to watch a directory.
  ///
  /// - Throws: `EMFILE` and `ENOSPC` if the user has as many watches as the system permits.
  package init(_ directory: borrowing Descriptor) throws(Errno) {
    queue = Descriptor(owning: try check(linux_watch_directory(directory.rawValue)))
  }

  /// Waits until a file with that name was replaced or written.
  ///
  /// - Throws: `ESTALE` if the directory is gone.
  package func wait(for name: PathName) throws(Errno) {
    _ = try check(unsafe name.withCString { unsafe linux_wait_for_change(queue.rawValue, $0) })
  }
}
