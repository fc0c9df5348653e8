import ProtectfsClient
import ProtectfsIO
import TreeCopy

/// What to type once a store is made.
enum FirstMount {
  /// The command that mounts a new store beside its backing directory, for a shell.
  static func command(backing: String, deviceKeyFile: String?) throws(CommandFailure) -> String {
    let key = try deviceKeyFile.map { (file) throws(CommandFailure) in
      " --device-key \(try CanonicalPath.of(file).shellQuoted)"
    }
    let mount = "protectfs mount --unlock\(key ?? "") \(backing.shellQuoted)"
    guard let place = place(beside: backing) else { return "\(mount) MOUNTPOINT" }
    return (exists(place) ? "" : "mkdir \(place.shellQuoted) && ") + "\(mount) \(place.shellQuoted)"
  }

  /// Where a store can be mounted: for one in the user's home directory at ~/Protected, else, or where that is taken,
  /// at the backing directory's name without the dot that hides it, or with a word more. `nil` where something else is
  /// there.
  private static func place(beside backing: String) -> String? {
    let usual = "\(Process.homeDirectory)/Protected"
    if backing.hasPrefix("\(Process.homeDirectory)/"), backing != usual, isFree(usual) { return usual }
    let parts = PathName(backing).parted
    let visible = parts.name.description.drop { $0 == "." }
    guard !visible.isEmpty else { return nil }
    let name = visible.count < parts.name.description.count ? "\(visible)" : "\(visible)-mounted"
    let place = parts.directory.appending(PathName(name)).description
    return isFree(place) ? place : nil
  }

  private static func isFree(_ place: String) -> Bool {
    !MountedFileSystem.all().contains { $0.mountPoint == place } && (!exists(place) || isEmptyDirectory(place))
  }

  private static func exists(_ path: String) -> Bool {
    (try? Descriptor.open(PathName(path), [.path, .noFollow])) != nil
  }

  private static func isEmptyDirectory(_ path: String) -> Bool {
    (try? PathName(path).names(limit: 1))?.isEmpty == true
  }
}
