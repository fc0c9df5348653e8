import MountDaemon
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// What is mounted and unlocked when a user logs in: lines of `NAME=VALUE` in the file `login.conf`.
///
/// The PAM module looks for that file where the password database has the user's home directory, without the
/// environment of a session. It therefore is in `.config` whatever `XDG_CONFIG_HOME` says.
struct LoginSettings: Encodable {
  var backing: String
  var mountPoint: String
  /// Mount options, separated by commas.
  var options: String

  /// The file.
  static var path: String { "\(directory)/login.conf" }
  private static var directory: String { "\(Process.homeDirectory)/.config/protectfs" }

  /// What is set; `nil` where nothing is unlocked at logins.
  ///
  /// - Throws: where the file cannot be read, or lacks one of the directories.
  static func read() throws -> LoginSettings? {
    let bytes: [UInt8]
    do throws(Errno) {
      bytes = try Descriptor.open(PathName(path), [.readOnly]).readAll(limit: 16_384)
    } catch .noSuchFileOrDirectory {
      return nil
    } catch {
      throw CommandFailure(path, error)
    }
    var values: [Substring: String] = [:]
    for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") where !line.hasPrefix("#") {
      let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      if parts.count == 2 { values[parts[0]] = String(parts[1]) }
    }
    guard let backing = values["BACKING"], let mountPoint = values["MOUNTPOINT"],
      backing.hasPrefix("/"), mountPoint.hasPrefix("/")
    else {
      throw CommandFailure(
        .failure, "\(path.printable) lacks BACKING or MOUNTPOINT; '\(anew)' writes it anew")
    }
    return LoginSettings(backing: backing, mountPoint: mountPoint, options: values["OPTIONS"] ?? "")
  }

  /// Writes the file, with mode 0600.
  func write() throws {
    for value in [backing, mountPoint, options] where value.utf8.contains(where: { $0 < 0x20 || $0 == 0x7f }) {
      throw CommandFailure(.usage, "'\(value.printable)' has a control character in it, which the settings cannot hold")
    }
    try Self.makeDirectories(Self.directory)
    let text = """
      # Written by 'protectfs login enable'. 'protectfs login disable' removes it.
      BACKING=\(backing)
      MOUNTPOINT=\(mountPoint)
      OPTIONS=\(options)

      """
    try naming(Self.path) {
      let directory = try Descriptor.open(PathName(Self.directory), [.readOnly, .directory])
      var file = try AtomicFile(replacing: "login.conf", in: directory)
      try unsafe Array(text.utf8).withBytes { (bytes) throws(Errno) in try unsafe file.commit(bytes) }
    }
  }

  /// Removes the file; returns whether there was one.
  static func remove() throws -> Bool {
    do throws(Errno) {
      try Descriptor.open(PathName(directory), [.path, .directory]).unlink("login.conf")
      return true
    } catch .noSuchFileOrDirectory {
      return false
    } catch {
      throw CommandFailure(path, error)
    }
  }

  /// Takes from its owner the right to write in a mount point, or gives it back: a program that goes on without a login
  /// would leave plaintext there, over which nothing is mounted. One in use, one of another's, and one with contents
  /// that a mount is wanted to cover, are left alone, and so is what other file system is mounted there.
  static func setWritable(_ isWritable: Bool, _ mountPoint: String, coversContents: Bool = false) throws {
    guard try MountedFileSystem.at(mountPoint) == nil, PathName(mountPoint).isThere else { return }
    do throws(Errno) {
      let directory = try Descriptor.open(PathName(mountPoint), [.path, .directory])
      let mode = try directory.status().permissions
      let isEmpty = try directory.names(limit: 1).isEmpty
      guard isWritable || isEmpty || !coversContents, try !MountedFileSystem.isMountPoint(directory) else { return }
      try directory.setModeThroughPath(isWritable ? mode | 0o200 : mode & ~0o200)
    } catch {
      if error != .notPermitted { throw CommandFailure(mountPoint, error) }
    }
  }

  /// What to type to have a store mounted, by its backing directory or mount point, or any: what is set for logins
  /// needs their service.
  static func wayToMount(_ path: String?) -> String {
    guard let settings = try? read(), path == nil || path == settings.backing || path == settings.mountPoint else {
      return path == nil ? "mount a store with 'protectfs mount BACKING MOUNTPOINT'" : "mount it with 'protectfs mount'"
    }
    return "'protectfs login enable' mounts \(settings.mountPoint.printable)"
  }

  /// Whether a mount is wanted where something is.
  var coversContents: Bool { (try? MountOptionList([options]).coversContents) ?? false }

  private var hasStore: Bool { (try? Store.trace(in: Store.open(backing))) == .keybag }

  /// What to type where there is a problem.
  var remedy: String { hasStore ? "protectfs login enable" : Self.anew }
  /// Names what cannot be found.
  static let anew = "protectfs login enable BACKING MOUNTPOINT"

  /// What keeps the next login from mounting; `nil` if nothing is known.
  var problem: String? {
    guard hasStore else { return "\(backing.printable) is no store, or not there" }
    if (try? MountedFileSystem.at(mountPoint)) != nil { return nil }
    do throws(CommandFailure) {
      _ = try MountPoint.checked(mountPoint, backing: backing, coversContents: coversContents)
      return nil
    } catch {
      return error.message
    }
  }

  /// Makes a directory, of mode 0700, and those above it that are missing.
  static func makeDirectories(_ path: String) throws {
    do {
      try Process.makeDirectory(path, mode: 0o700)
    } catch Errno.fileExists {
      // It is there.
    } catch Errno.noSuchFileOrDirectory {
      guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else {
        throw CommandFailure(path, .noSuchFileOrDirectory)
      }
      try makeDirectories(String(path[..<slash]))
      try naming(path) { try Process.makeDirectory(path, mode: 0o700) }
    } catch {
      throw CommandFailure(path, error)
    }
  }
}
