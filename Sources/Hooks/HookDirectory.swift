import ProtectfsIO
import SystemPackage

/// What happens on a mount and has scripts that are run for it.
package enum HookEvent: String, CaseIterable, Sendable {
  /// A lock was announced, and waits for the scripts.
  case preLock = "pre-lock"
  /// Keys have been wiped.
  case postLock = "post-lock"
  /// An unlock has brought keys back, or has cancelled a lock.
  case postUnlock = "post-unlock"
}

/// A directory that has the scripts for each event in a directory of its own: `pre-lock.d`, `post-lock.d`,
/// `post-unlock.d`.
///
/// What is run is what run-parts(8) would run, and that only where nobody but root and this user can have written it.
package struct HookDirectory: Sendable {
  /// Absolute, and without symbolic links.
  let path: String

  /// The directory of a path.
  ///
  /// - Throws: `ENOTDIR` for what is no directory, and what reaching it fails with.
  package init(_ path: String) throws(Errno) {
    self.path = try PathName(path).canonical().description
    guard Self.status(of: self.path)?.type == .directory else { throw .notDirectory }
  }

  /// The paths of the scripts for an event, in the order of the bytes of their names. `warn` is told of what is passed
  /// over because others could have written it.
  func scripts(for event: HookEvent, warn: (_ path: String) -> Void) -> [String] {
    let directory = "\(path)/\(event.rawValue).d"
    guard Self.status(of: directory)?.type == .directory else { return [] }
    for above in Self.directories(above: path) where !Self.isKept(above) {
      warn(above)
      return []
    }
    for checked in [path, directory] where !Self.isOurs(checked) {
      warn(checked)
      return []
    }
    let names = (try? PathName(directory).names(limit: 10_000)) ?? []
    return names.filter(Self.isScriptName).sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }.compactMap { name in
      let script = "\(directory)/\(name)"
      guard let status = Self.status(of: script), status.type == .regular, status.mode & 0o111 != 0 else { return nil }
      guard Self.isOurs(script) else {
        warn(script)
        return nil
      }
      return script
    }
  }

  /// Editors' copies and packages' leftovers have other characters.
  private static func isScriptName(_ name: PathName) -> Bool {
    name.bytes.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."):
        true
      default: false
      }
    }
  }

  /// Whether root or this user has it, and nobody else may write it.
  private static func isOurs(_ path: String, orSticky: Bool = false) -> Bool {
    guard let status = status(of: path) else { return false }
    let isClosed = status.mode & 0o022 == 0 || (orSticky && status.mode & 0o1000 != 0)
    return (status.user == 0 || status.user == Process.identity.user) && isClosed
  }

  /// Whether nobody else may put another entry in the place of one that is root's or this user's: this is so where
  /// others may write, too, if the directory is sticky.
  private static func isKept(_ directory: String) -> Bool { isOurs(directory, orSticky: true) }

  /// `/`, `/etc` and `/etc/protectfs` for `/etc/protectfs/hooks`.
  private static func directories(above path: String) -> [String] {
    path.indices.filter { path[$0] == "/" }.map { $0 == path.startIndex ? "/" : String(path[..<$0]) }
  }

  private static func status(of path: String) -> Status? {
    try? Descriptor.open(PathName(path), [.path, .noFollow]).status()
  }
}
