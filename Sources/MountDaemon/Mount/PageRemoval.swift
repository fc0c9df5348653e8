import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// What is done for a mount whose daemon is no more, by the process beside it: the kernel ends the connection then, but
/// keeps the pages of files that somebody has open or mapped, and gives them to everyone who asks.
enum PageRemoval {
  /// Drops the pages of `files`, all that the kernel knows, of every class; then the connection ends. Every request is
  /// refused meanwhile as one of a dead mount is: what was dirty is lost, as with any daemon that is killed.
  ///
  /// What came through rings nobody can refuse: the kernel delivers no request to others, and those that the daemon had
  /// taken do not end with it. So that connection ends first.
  static func run(
    _ connection: consuming KernelConnection, _ files: SharedNumbers, _ mark: PageRemovalMark, hasRings: Bool
  ) {
    do throws(Errno) {
      // Opened before the file system is looked for: after that the number may be another's.
      let abort = hasRings ? try KernelConnection.openAbort(of: mark.device) : nil
      if connection.hasNoFileSystem { return }
      if let abort { try KernelConnection.abort(abort) }
    } catch {
      // The pages remain, and without the mark commands say so.
      return
    }
    let refusing: ForkedProcess
    do throws(Errno) {
      refusing = try ForkedProcess { end in
        connection.refuseRequests(.socketNotConnected, until: end)
        Process.exitAtOnce(0)
      }
    } catch {
      return
    }
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
    refusing.waitForEnd()
  }
}
