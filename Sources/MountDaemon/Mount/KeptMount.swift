import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// What the process beside a daemon keeps of the mount: its own hold on the connection, which tells this file system
/// from the next one at the same place. The kernel gives the numbers of a mount that is gone to the next.
struct KeptMount: ~Copyable {
  private let connection: KernelConnection
  private let mark: PageRemovalMark
  /// Ends the connection, of this file system alone; `nil` where the kernel's list of connections is not to be had.
  private let abort: Descriptor?
  private let hasRings: Bool

  /// To be made while the file system is mounted; `nil` if something is missing. `hasRings`: requests may come through
  /// rings.
  init?(_ connection: consuming KernelConnection?, _ mark: PageRemovalMark?, hasRings: Bool) {
    guard let connection, let mark else { return nil }
    self.connection = connection
    self.mark = mark
    self.hasRings = hasRings
    abort = try? KernelConnection.openAbort(of: mark.device)
  }

  /// Unmounts, and nothing else that is mounted there by now. Returns whether this file system is not mounted there.
  func unmount(at mountPoint: String, isLazy: Bool) -> Bool {
    do throws(Errno) {
      // The number first: it is this file system's own while that is there, and the connection may not answer while
      // that is on its way to its end.
      let found = try MountedFileSystem.find(containing: mountPoint)
      guard let found, found.device == mark.device, !connection.hasNoFileSystem else { return true }
      try Unmount.run(found, isLazy: isLazy)
      return true
    } catch {
      return false
    }
  }

  /// Drops the pages of `files`, all that the kernel knows, of every class, when the daemon is no more; then the
  /// connection ends. The kernel would end it too, but keep the pages of files that somebody has open or mapped, and
  /// give them to everyone who asks.
  ///
  /// Every request fails meanwhile as on a dead mount: what was dirty is lost, as with any daemon that is killed. What
  /// the daemon had taken ends with it, but not while its threads cannot end, nor what came through rings, which the
  /// kernel gives to nobody else: so the connection is ended first. Where that is not possible, requests are refused.
  consuming func dropPages(of files: SharedNumbers) {
    do throws(Errno) {
      switch abort {
      case .some(let abort): try KernelConnection.abort(abort)
      case .none: if hasRings { return }
      }
      if connection.hasNoFileSystem { return }
      let refusing = try ForkedProcess { end in
        connection.refuseRequests(.socketNotConnected, until: end)
        Process.exitAtOnce(0)
      }
      if dropEach(of: files) { mark.set() }
      refusing.waitForEnd()
    } catch {
      // The pages remain, and without the mark commands say so.
    }
  }

  /// Returns whether no page is left.
  private func dropEach(of files: SharedNumbers) -> Bool {
    var isWhole = !files.isFull
    files.forEach { node in
      do throws(Errno) {
        try connection.dropPages(of: node)
      } catch {
        // What the kernel has forgotten meanwhile has no pages.
        if error != .noSuchFileOrDirectory { isWhole = false }
      }
    }
    return isWhole
  }
}
