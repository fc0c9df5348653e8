import CSystemCalls
import Glibc
import ProtectfsIO
import SystemPackage

/// A call that takes a path, for the rows that every such call has.
struct PathCall: Sendable {
  let name: String
  let step: @Sendable (PathName?) -> Step

  init(_ name: String, _ step: @escaping @Sendable (PathName?) -> Step) {
    self.name = name
    self.step = step
  }

  /// Calls that need what the path names.
  static let onExisting: [PathCall] = [
    .init("access") { .access($0, 4) },
    .init("chdir") { .chdir($0) },
    .init("chmod") { .chmod($0, 0o640) },
    .init("chown") { .chown($0, -1, -1) },
    .init("getxattr") { .getxattr($0, "user.some") },
    .init("lchown") { .lchown($0, -1, -1) },
    .init("link from") { .link($0, as: "made") },
    .init("list") { .list($0) },
    .init("listxattr") { .listxattr($0) },
    .init("lstat") { .lstat($0) },
    .init("open for reading") { .open($0, O_RDONLY | O_NONBLOCK) },
    .init("open for writing") { .open($0, O_WRONLY | O_NONBLOCK) },
    .init("open and truncate") { .open($0, O_RDWR | O_TRUNC | O_NONBLOCK) },
    .init("open for the path") { .open($0, 0o10000000) },
    .init("readlink") { .readlink($0) },
    .init("removexattr") { .removexattr($0, "user.some") },
    .init("rename from") { .rename($0, to: "made") },
    .init("rmdir") { .rmdir($0) },
    .init("setxattr") { .setxattr($0, "user.some", [1, 2, 3]) },
    .init("stat") { .stat($0) },
    .init("statfs") { .statfs($0) },
    .init("truncate") { .truncate($0, 100) },
    .init("unlink") { .unlink($0) },
    .init("utimens") { .utimens($0, .init(seconds: 1000), .init(seconds: 2000)) },
    .init("utimens, following") { .utimens($0, .init(seconds: 1000), .init(seconds: 2000), flags: 0) },
  ]

  /// Calls that make what the path names. Those that move or link take a file `old` that is there.
  static let creating: [PathCall] = [
    .init("link to") { .link("old", as: $0) },
    .init("mkdir") { .mkdir($0) },
    .init("mkfifo") { .mkfifo($0) },
    .init("mknod of a device") { .mknod($0, Int64(S_IFCHR) | 0o644, device: 0x103) },
    .init("mknod of a file") { .mknod($0, Int64(S_IFREG) | 0o644) },
    .init("mknod of a socket") { .mknod($0, Int64(S_IFSOCK) | 0o644) },
    .init("open and create") { .open($0, O_RDWR | O_CREAT) },
    .init("open and create exclusively") { .open($0, O_RDWR | O_CREAT | O_EXCL) },
    .init("rename to") { .rename("old", to: $0) },
    .init("symlink") { .symlink($0, to: "target") },
  ]

  static let all = onExisting + creating
}

extension PathName {
  /// A name of one letter, repeated.
  static func long(_ count: Int, _ letter: Character = "n") -> PathName {
    PathName(String(repeating: letter, count: count))
  }

  /// A path to a name, as long as asked for by going through `.` again and again.
  static func padded(_ name: String, to count: Int) -> PathName {
    let padding = count - name.utf8.count
    return PathName(String(repeating: "./", count: padding / 2) + (padding % 2 == 1 ? "/" : "") + name)
  }
}
