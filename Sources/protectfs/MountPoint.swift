import MountDaemon
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// Whether a store can be mounted at a place; each refusal says what to do.
enum MountPoint {
  /// Checks a mount point and returns its canonical path. A dead mount of ours is cleaned up.
  static func checked(
    _ path: String, backing: String, coversContents: Bool
  ) throws(CommandFailure) -> String {
    let canonical = try CanonicalPath.of(
      path, missing: CommandFailure(.unsuitableMountPoint, "\(path) does not exist; make it with 'mkdir \(path)'"))
    try requireNoLivingMount(canonical)
    guard !CanonicalPath.lies(canonical, in: backing) else {
      throw CommandFailure(
        .unsuitableMountPoint, "\(path) is inside the backing directory \(backing); mount somewhere else")
    }
    guard !CanonicalPath.lies(backing, in: canonical) else {
      throw CommandFailure(
        .unsuitableMountPoint,
        "the backing directory \(backing) is inside \(path), which would hide it; mount somewhere else")
    }
    try requireEmptyDirectory(canonical, coversContents: coversContents)
    return canonical
  }

  /// Refuses to mount a store that another mount writes, unless it is to be read only.
  static func requireNotMounted(backing: String, isReadOnly: Bool) throws(CommandFailure) {
    guard !isReadOnly, let mount = MountedFileSystem.writing(backing) else { return }
    throw CommandFailure(
      .alreadyMounted, "\(backing) is mounted at \(mount.mountPoint) already; unmount it there first")
  }

  /// Checks that file systems can be mounted by way of FUSE at all.
  static func requireFUSE(allowsOthers: Bool) throws(CommandFailure) {
    let device = "/dev/fuse"
    do throws(Errno) {
      try Process.requireAccess(to: device, .readAndWrite)
    } catch .noSuchFileOrDirectory {
      throw CommandFailure(.noFUSE, "there is no \(device); load the kernel's module with 'modprobe fuse' as root")
    } catch {
      throw CommandFailure(
        .noFUSE, "this user may not open \(device); 'chmod 666 \(device)' as root gives it the mode that udev does")
    }
    guard Process.identity.user != 0 else { return }
    guard Process.onPath("fusermount3") != nil else {
      throw CommandFailure(.noFUSE, "fusermount3 is missing, with which users mount; install the package fuse3")
    }
    guard allowsOthers, let configuration = try? Descriptor.open("/etc/fuse.conf", [.readOnly]),
      let bytes = try? configuration.readAll(limit: 65_536)
    else { return }
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    guard !lines.contains(where: { $0.filter { $0 != " " && $0 != "\t" } == "user_allow_other" }) else { return }
    throw CommandFailure(
      .notPermitted, "allow_other needs a line 'user_allow_other' in /etc/fuse.conf, which root can add")
  }

  private static func requireNoLivingMount(_ path: String) throws(CommandFailure) {
    guard let mount = try? MountedFileSystem.containing(path), mount.mountPoint == path else { return }
    guard mount.isDead else {
      throw CommandFailure(.alreadyMounted, "\(path) is a mount of \(mount.backing) already")
    }
    do throws(Errno) {
      try Unmount.run(mount, isLazy: true)
    } catch {
      throw CommandFailure(.noAnswer, "\(path) is a mount whose daemon is gone, and cannot be unmounted: \(error)")
    }
    PageRemovalMark.remove(for: mount)
    CommandFailure.report("\(path) was a mount whose daemon is gone; it was cleaned up")
  }

  /// Whether a login may have taken the right to write in a directory.
  private static func isKeptFromWriting(_ path: String) -> Bool {
    do throws(Errno) {
      let directory = try Descriptor.open(PathName(path), [.path])
      let status = try directory.status()
      guard status.user == Process.identity.user, status.permissions & 0o200 == 0 else { return false }
      return try !MountedFileSystem.isMountPoint(directory)
    } catch {
      return false
    }
  }

  private static func requireEmptyDirectory(_ path: String, coversContents: Bool) throws(CommandFailure) {
    let names: [PathName]
    do throws(Errno) {
      names = try PathName(path).names(limit: 1)
    } catch .notDirectory {
      throw CommandFailure(.unsuitableMountPoint, "\(path) is not a directory")
    } catch {
      throw CommandFailure(path, error)
    }
    guard names.isEmpty || coversContents else {
      let (place, away) = (path.shellQuoted, "\(path).plain".shellQuoted)
      let remedy =
        isKeptFromWriting(path)
        ? "this moves it away: chmod u+w \(place) && mv \(place) \(away) && mkdir \(place)"
        : "choose an empty directory, or give -o nonempty"
      throw CommandFailure(
        .unsuitableMountPoint, "\(path) is not empty, and what is in it would be hidden; \(remedy)")
    }
  }
}
