import ProtectfsIO
import SystemPackage

/// Takes a mount away: root by umount2(2), others by fusermount3(1).
package enum Unmount {
  /// Unmounts; returns whether it is gone. A lazy unmount takes the name at once, and the rest when nobody uses it.
  package static func run(_ mountPoint: String, isLazy: Bool) -> Bool {
    if Process.identity.user == 0 {
      return Process.unmount(mountPoint, isLazy: isLazy)
    }
    let arguments = isLazy ? ["-u", "-z", "-q", mountPoint] : ["-u", "-q", mountPoint]
    return ChildProcess.run("fusermount3", arguments) == .exited(0)
  }
}
