import ProtectfsIO
import ProtectfsPolicy

/// The socket of a mount: a directory of the mount's owner, and a name made from the mount point.
package struct ControlSocket: Sendable, Hashable {
  /// The directory, of mode 0700.
  package let directory: String
  /// The name in it.
  package let name: String

  /// The socket with that name in that directory.
  package init(directory: String, name: String) {
    self.directory = directory
    self.name = name
  }

  /// The full path, for users and for other Varlink clients.
  package var path: String { "\(directory)/\(name)" }

  /// The directories in which the socket of a user's mount may be. A new daemon uses the first.
  ///
  /// Root: `/run/protectfs`. Others: `$XDG_RUNTIME_DIR/protectfs`, `/run/user/UID/protectfs` and
  /// `/run/protectfs-user/UID/protectfs`, if these directories exist and belong to the user, and `/tmp/protectfs-UID`.
  /// The third is the runtime directory of the service of a user's logins, which outlives the user's own.
  package static func directories(of user: UInt32) -> [String] {
    directories(of: user) { isDirectory($0, ownedBy: user) }
  }

  /// Those, and the ones that are not there, or not the user's.
  static func possibleDirectories(of user: UInt32) -> [String] { directories(of: user) { _ in true } }

  private static func directories(of user: UInt32, _ isThere: (String) -> Bool) -> [String] {
    if user == 0 { return ["/run/protectfs"] }
    var parents = ["/run/user/\(user)", "/run/protectfs-user/\(user)"]
    if let path = Process.environment("XDG_RUNTIME_DIR"), path.hasPrefix("/"), path != parents[0] {
      parents.insert(path, at: 0)
    }
    return parents.filter(isThere).map { "\($0)/protectfs" } + ["/tmp/protectfs-\(user)"]
  }

  /// The name for a mount point: its path, escaped as systemd escapes paths, so that it can be decoded.
  ///
  /// A name that is too long for a socket address keeps its start and ends with a hash of the path.
  package static func name(forMountPoint path: String) -> String {
    var name = ""
    for byte in path.utf8.drop(while: { $0 == UInt8(ascii: "/") }) {
      switch byte {
      case UInt8(ascii: "/"): name.append("-")
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "."):
        name.unicodeScalars.append(Unicode.Scalar(byte))
      default: name += "\\x" + [byte].hexadecimal
      }
    }
    if name.isEmpty { name = "-" }
    if name.utf8.count > longestName {
      name = "\(name.prefix(longestName - 17))-\(NameHash.digits(of: path.utf8))"
    }
    return name + ".sock"
  }

  /// The prefix of the socket names of a backing directory, by its device and inode number: the directory may have
  /// several paths and several daemons. No name for a mount point contains such a `=`.
  package static func prefix(forBackingDevice device: UInt64, inode: UInt64) -> String {
    "\(backingPrefix)\(String(device, radix: 16))-\(String(inode, radix: 16))="
  }

  /// What the names by backing directories begin with.
  static let backingPrefix = "backing="

  /// `sockaddr_un` holds 107 bytes, of which `/proc/self/fd/N/` may need about 20 and `.sock` 5.
  private static let longestName = 64

  private static func isDirectory(_ path: String, ownedBy user: UInt32) -> Bool {
    guard let directory = try? Descriptor.open(PathName(path), [.path, .noFollow]) else { return false }
    // Others may have mounted a file system of their own there, which never answers.
    if user != Process.identity.user, (try? SocketDirectory.isFUSE(directory)) != false { return false }
    guard let status = try? directory.status() else { return false }
    return status.type == .directory && status.user == user
  }
}
