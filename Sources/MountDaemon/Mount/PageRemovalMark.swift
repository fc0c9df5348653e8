import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// A file beside the control socket of a mount whose daemon was killed: says that the kernel has no page of it any
/// more.
package struct PageRemovalMark: Sendable {
  private let path: String
  private let text: String

  /// The mark of a mount whose control socket is there.
  init(_ socket: ControlSocket, _ mount: MountedFileSystem) {
    path = Self.path(in: socket.directory, socket.name)
    text = Self.text(for: mount)
  }

  /// The device number of the mount's file system, as `MAJOR:MINOR`.
  var device: Substring { text.prefix { $0 != " " } }

  /// Undoes ``bytes``.
  init?(_ bytes: ArraySlice<UInt8>) {
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
    guard lines.count >= 2, let last = lines.last else { return nil }
    path = lines.dropLast().joined(separator: "\n")
    text = String(last)
  }

  /// What it is sent to another process as.
  var bytes: [UInt8] { Array("\(path)\n\(text)".utf8) }

  /// Sets it. Where that fails the pages count as being there.
  func set() {
    let flags = OpenFlags([.writeOnly, .create, .truncate, .noFollow, .nonBlocking])
    guard let file = try? Descriptor.open(PathName(path), flags, mode: 0o600) else { return }
    try? file.write(Array(text.utf8))
  }

  /// Removes it: one of an earlier mount may be there, which had the same numbers.
  func clear() {
    try? Descriptor.open("/", [.path]).unlink(PathName(path))
  }

  /// Removes the marks in a directory of control sockets whose mounts are gone; none, if the mounts cannot be listed.
  static func removeStale(_ names: [String], in directory: borrowing SocketDirectory) {
    guard let mounts = try? MountedFileSystem.listed() else { return }
    let texts = Set(mounts.map { text(for: $0) })
    for name in names where name.hasSuffix(suffix) {
      let text = String(decoding: read(name, in: directory) ?? [], as: UTF8.self)
      if !texts.contains(text) { try? directory.descriptor.unlink(PathName(name)) }
    }
  }

  /// Whether the pages of a mount without a daemon have been dropped.
  package static func isSet(for mount: MountedFileSystem) -> Bool {
    let wanted = Array(text(for: mount).utf8)
    return files(of: mount) { directory, name in read(name, in: directory) == wanted }
  }

  private static func read(_ name: String, in directory: borrowing SocketDirectory) -> [UInt8]? {
    try? directory.openFile(name).readAll(limit: 4096)
  }

  /// Removes the mark of a mount that is gone.
  package static func remove(for mount: MountedFileSystem) {
    _ = files(of: mount) { directory, name in
      try? directory.descriptor.unlink(PathName(name))
      return false
    }
  }

  /// Whether `body` says so of one of the places where the mark may be.
  private static func files(of mount: MountedFileSystem, _ body: (borrowing SocketDirectory, String) -> Bool) -> Bool {
    let name = path(in: "", ControlSocket.name(forMountPoint: mount.mountPoint)).dropFirst()
    return ControlSocket.directories(of: mount.owner).contains { path in
      guard let directory = try? SocketDirectory(opening: path, of: mount.owner) else { return false }
      return body(directory, String(name))
    }
  }

  private static func path(in directory: String, _ socketName: String) -> String {
    "\(directory)/\(socketName.dropLast(".sock".count))\(suffix)"
  }

  private static let suffix = ".dropped"

  private static func text(for mount: MountedFileSystem) -> String { "\(mount.device) \(mount.identifier)" }
}
