import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// What is done for a mount whose daemon is no more, by the process beside it: the kernel ends the connection then, but keeps
/// the pages of files that somebody has open or mapped, and gives them to everyone who asks.
enum PageRemoval {
  /// Drops the pages of `files`, all that the kernel knows, of every class; then the connection ends. Every request is
  /// refused meanwhile as one of a dead mount is: what was dirty is lost, as with any daemon that is killed.
  static func run(_ connection: consuming KernelConnection, _ files: SharedNumbers, _ mark: PageRemovalMark) {
    if connection.hasNoFileSystem { return }
    guard let ends = try? LocalSocket.pair(), let refusing = try? Process.fork() else { return }
    if refusing == 0 {
      close(ends.0)
      connection.refuseRequests(Errno(rawValue: ENOTCONN), until: ends.1)
      _exit(0)
    }
    close(ends.1)
    var isWhole = !files.isFull
    files.forEach { node in
      do throws(Errno) {
        try connection.dropPages(of: node)
      } catch {
        // What the kernel has forgotten meanwhile has no pages.
        if error != .noSuchFileOrDirectory { isWhole = false }
      }
    }
    if isWhole { mark.set() }
    _ = consume connection
    close(ends.0)
    while waitpid(refusing, nil, 0) < 0 && errno == EINTR {}
  }
}
