import FUSE
import Logging
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// Notices that a mount was taken away: by umount(8), lazily or not, by whoever may. The file system lives on where a
/// process has a file open on it, or another mount namespace has a mount of its own: nobody who locks by the mount
/// point reaches it then.
struct MountWatch: ~Copyable {
  /// How long the kernel may take to end the connection of a file system that nobody holds, once its mount is not
  /// listed any more. Nothing is dirty then: the last close(2) of a file, or its unmapping, has begun to write it back.
  fileprivate static let patience = Duration.milliseconds(400)

  private let mount: MountedFileSystem
  private let table: Descriptor

  /// Watches the mount that was made at a mount point, the last one there.
  ///
  /// - Throws: `ENOENT` where there is none.
  init(of mountPoint: String) throws(Errno) {
    // Opened before it is read, so that no change is missed.
    let table = try Descriptor.open("/proc/self/mountinfo", [.readOnly])
    guard let mount = try MountedFileSystem.at(mountPoint) else { throw .noSuchFileOrDirectory }
    self.mount = mount
    self.table = table
  }

  /// Waits until the mount is gone. While the table cannot be read, it counts as being there.
  func waitForEnd() {
    while true {
      guard let isListed = try? mount.isListed() else {
        MonotonicClock.sleep(microseconds: 500_000)
        continue
      }
      guard isListed else { return }
      // Changes of the table are told so (proc_pid_mounts(5)).
      if (try? Poll.wait(for: .changed(table.rawValue))) == nil { MonotonicClock.sleep(microseconds: 500_000) }
    }
  }
}

extension Session {
  /// Waits until the connection has ended, and that long at most; returns whether it has.
  func ends(within time: Duration) -> Bool {
    let end = MonotonicClock.now + time
    while isConnected {
      if MonotonicClock.now >= end { return false }
      MonotonicClock.sleep(microseconds: 10_000)
    }
    return true
  }
}

extension Daemon {
  /// Has a thread lock everything when the file system goes on without its mount point.
  func watchMount(_ session: Session) {
    do throws(Errno) {
      let watch = try MountWatch(of: options.mountPoint)
      Thread(name: "mount watch") { [self] in
        watch.waitForEnd()
        // The next mount may have its number at once.
        machine.state.published?.remove()
        // An unlock that has begun is cancelled. One that comes now, by the backing directory, is not to be undone.
        machine.cancelUnlocks()
        machine.monitor.update { $0.isMountGone = true }
        defer { machine.monitor.update { $0.isMountGone = false } }
        guard !session.ends(within: MountWatch.patience) else { return }
        log.warning("unmounted, but somebody still holds the file system: everything is locked")
        machine.lockEverything()
      }.detach()
    } catch {
      log.error("an unmounting by others will not be noticed", metadata: ["error": "\(error)"])
    }
  }
}
