import ProtectfsIO
import SystemPackage

/// Paths without symbolic links, `.` and `..`.
enum CanonicalPath {
  /// The canonical path of something that exists.
  ///
  /// - Parameter missing: the failure where it does not.
  static func of(_ path: String, missing: CommandFailure? = nil) throws(CommandFailure) -> String {
    guard !path.isEmpty else { throw CommandFailure(.usage, "a path is empty; a variable perhaps that was not set") }
    do throws(Errno) {
      return try PathName(path).canonical().description
    } catch {
      if error == .noSuchFileOrDirectory, let missing { throw missing }
      throw CommandFailure(path, error)
    }
  }

  /// The path itself, unless it is that of a symbolic link: then the canonical path of what the link leads to.
  static func ofLink(_ path: String) throws(CommandFailure) -> String {
    guard (try? Descriptor.open(PathName(path), [.path, .noFollow]).status().type) == .symbolicLink else { return path }
    return try of(path)
  }

  /// The canonical path of a backing directory.
  static func ofBacking(_ path: String) throws(CommandFailure) -> String {
    try of(
      path,
      missing: CommandFailure(
        .noStore,
        "\(path) does not exist; if the store was moved, give its new place, or make a store with 'protectfs init "
          + "\(path.shellQuoted)'"))
  }

  /// Whether a canonical path is that directory, or lies below it.
  static func lies(_ path: String, in other: String) -> Bool {
    path == other || other == "/" || path.hasPrefix(other + "/")
  }
}
