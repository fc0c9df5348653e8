import Glibc
import ProtectfsIO
import SystemPackage

/// rename: everything onto everything, with every flag.
enum RenameTables {
  static var rows: [Row] { pairs + flags + places + permissions }

  private static var pairs: [Row] {
    var rows: [Row] = []
    for (from, to) in [(PathName("a"), PathName("b")), (.long(200, "a"), .long(255, "b"))] {
      for source in Kind.allCases {
        for target in Kind.allCases.map(Optional.some) + [nil] {
          for flag: Int64 in [0, 1, 2, 4] {
            rows.append(
              Row(
                "a \(source) renamed to \(target.map { "a \($0)" } ?? "nothing") with flags \(flag), "
                  + "\(from.bytes.count) and \(to.bytes.count) bytes",
                [source.make(from)] + (target.map { [$0.make(to)] } ?? []) + [
                  .rename(from, to: to, flags: flag).compared, .lstat(from).compared, .lstat(to).compared, .list("."),
                ]))
          }
        }
      }
    }
    return rows
  }

  private static var flags: [Row] {
    (0..<16).map { Int64($0) }.map { flag in
      Row(
        "rename with flags \(flag)",
        [
          .make("a"), .make("b"), .rename("a", to: "b", flags: flag).compared, .make("c"),
          .rename("c", to: "new", flags: flag).compared, .mkdir("d"), .mkdir("e"), .make("e/f"),
          .rename("d", to: "e", flags: flag).compared, .rename("d", to: "d/x", flags: flag).compared,
          .rename("e", to: "e", flags: flag).compared, .rename("none", to: "a", flags: flag).compared,
        ])
    }
  }

  private static var places: [Row] {
    [
      Row(
        "a directory moved into itself",
        [
          .mkdir("a"), .mkdir("a/b"), .rename("a", to: "a/c").fails(.invalidArgument),
          .rename("a", to: "a/b").fails(.invalidArgument), .rename("a", to: "a/b/c").fails(.invalidArgument),
        ]),
      Row(
        "a directory moved onto its parent",
        [
          .mkdir("a"), .mkdir("a/b"), .make("a/b/f"), .rename("a/b", to: "a").fails(.directoryNotEmpty),
          .rename("a/b/f", to: "a").fails(.directoryNotEmpty),
        ]),
      Row(
        "a directory moved to another counts there",
        [
          .mkdir("a"), .mkdir("b"), .mkdir("a/c"), .make("a/c/f"), .rename("a/c", to: "b/c"), .lstat("b/c/f"),
          .list("b/c/.."), .rename("b/c", to: "c"), .list("c/.."), .lstat("c/f"),
        ]),
      Row(
        "an empty directory replaced",
        [
          .mkdir("a"), .make("a/f"), .mkdir("b"), .open("b", O_RDONLY), .rename("a", to: "b"), .fstat,
          .getdents.compared,
          .lstat("b/f"),
        ]),
      Row(
        "a directory that is not empty is not replaced",
        [
          .mkdir("a"), .mkdir("b"), .make("b/f"), .rename("a", to: "b").fails(.directoryNotEmpty),
          .unlink("b/f"), .rename("a", to: "b"),
        ]),
      Row(
        "one name of a file onto another",
        [
          .make("a"), .link("a", as: "b"), .rename("a", to: "b"), .lstat("a"), .lstat("b"),
          .rename("a", to: "b", flags: 1).fails(.fileExists), .rename("a", to: "b", flags: 2),
        ]),
      Row("a file onto itself", [.make("a"), .rename("a", to: "a"), .rename("a", to: "./a"), .lstat("a")]),
      Row(
        "a replaced file that is open",
        [
          .open("b", O_RDWR | O_CREAT), .write([1, 2, 3], at: 0), .make("a"), .rename("a", to: "b"), .fstat,
          .read(at: 0, 10), .write([4, 5], at: 3), .ftruncate(4), .fchmod(0o600), .fchown(65_531, 65_531),
          .read(at: 0, 10),
          .futimens(.init(seconds: 5), .init(seconds: 6)), .fsync, .fstat,
        ]),
      Row(
        "dots",
        [
          .mkdir("a"), .mkdir("b"), .rename("a/.", to: "b").compared, .rename("a", to: "b/.").compared,
          .rename("a/..", to: "b").compared, .rename(".", to: "b").compared, .rename("a", to: "..").compared,
          .rename("a/", to: "c/").compared, .make("f"), .rename("f", to: "g/").compared,
          .rename("f/", to: "g").compared,
        ]),
      Row(
        "a link is renamed, not what it leads to",
        [
          .make("f"), .symlink("l", to: "f"), .rename("l", to: "m"), .readlink("m"), .rename("f", to: "m"), .lstat("m"),
        ]),
      Row("a circle of links is renamed", [.symlink("a", to: "a"), .rename("a", to: "b"), .readlink("b")]),
    ]
  }

  /// A directory of another is moved to another directory: its `..` changes.
  private static var permissions: [Row] {
    var rows: [Row] = []
    for mode: Int64 in [0o777, 0o755, 0o700, 0o000] {
      for owner in [Identity.owner, .stranger] {
        for identity in [Identity.owner, .stranger, .member] {
          for kind in [Kind.file, .directory] {
            rows.append(
              Row(
                "a \(kind) of \(owner), mode \(octal(mode)), moved by \(identity)",
                [
                  .mkdir("to"), .chmod("to", 0o777), kind.make("n"), .give("n", to: owner), .chmod("n", mode),
                  .rename("n", to: "m").by(identity).compared, .rename("m", to: "to/n").by(identity).compared,
                  kind.make("n2"), .rename("n2", to: "to/n", flags: 2).by(identity).compared,
                ]))
          }
        }
      }
    }
    return rows
  }
}
