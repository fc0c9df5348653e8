import Glibc
import ProtectfsIO
import SystemPackage

/// Names: made where there are some, moved onto each other, linked and removed.
enum NameTables {
  static var rows: [Row] { taken + removed + links + symbolicLinks + places }

  private static var taken: [Row] {
    var rows: [Row] = []
    for call in PathCall.creating where !call.name.hasPrefix("rename") && call.name != "open and create" {
      for kind in Kind.allCases {
        for name in [PathName("n"), .long(200)] {
          rows.append(
            Row(
              "\(call.name): where there is a \(kind) of \(name.bytes.count) bytes",
              [
                .make("old"), kind.make(name), call.step(name).fails(.fileExists), .list("."),
              ]))
        }
      }
    }
    return rows
  }

  private static var removed: [Row] {
    var rows: [Row] = []
    for kind in Kind.allCases {
      for name in [PathName("n"), .long(255)] {
        rows.append(
          Row(
            "a \(kind) of \(name.bytes.count) bytes is removed and made again",
            [
              kind.make(name), .unlink(name).fails(kind == .directory ? .isDirectory : nil),
              .rmdir(name).fails(kind == .directory ? nil : .noSuchFileOrDirectory),
              .lstat(name).fails(.noSuchFileOrDirectory), kind.make(name), .lstat(name), .list("."),
            ]))
        rows.append(
          Row(
            "rmdir of a \(kind) of \(name.bytes.count) bytes",
            [
              kind.make(name), .rmdir(name).fails(kind == .directory ? nil : .notDirectory),
            ]))
        if kind != .directory {
          rows.append(
            Row(
              "a \(kind) with two names of \(name.bytes.count) bytes loses one",
              [
                kind.make("first"), .link("first", as: name), .lstat("first"), .unlink("first"), .lstat(name),
                .unlink(name),
              ]))
        }
        rows.append(
          Row(
            "a directory with a \(kind) in it is not removed",
            [
              .mkdir("d"), kind.make(PathName("d/" + name.description)), .rmdir("d").fails(.directoryNotEmpty),
              .unlink("d", 0x200).fails(.directoryNotEmpty), .list("d"),
            ]))
      }
    }
    return rows
  }

  private static var links: [Row] {
    var rows: [Row] = []
    for kind in Kind.allCases {
      for identity in ModeTables.identities {
        rows.append(
          Row(
            "link to a \(kind) by \(identity)",
            [
              kind.make("n"), .give("n", to: .owner),
              .link("n", as: "m").by(identity).compared, .mkdir("d"), .chmod("d", 0o777),
              .link("n", as: "d/m").by(identity).compared, .link("n", as: "n").by(identity).compared,
              .symlink("l", to: "n"), .link("l", as: "k").by(.root),
              .link("l", as: "j", flags: 0x400).by(identity).compared,
              .lstat("n"),
            ]))
      }
    }
    return rows
  }

  private static var symbolicLinks: [Row] {
    var rows: [Row] = []
    for length in [1, 2, 3, 15, 16, 17, 59, 60, 61, 255, 256, 1023, 3054, 3055, 3056, 4094, 4095] {
      let target = PathName.long(length, "t")
      rows.append(
        Row(
          "a link with a target of \(length) bytes",
          [
            .symlink("l", to: target), .readlink("l"), .readlink("l", capacity: 1), .readlink("l", capacity: length),
            .lstat("l"), .rename("l", to: "k"), .readlink("k"), .link("k", as: "j"), .unlink("k"), .readlink("j"),
            .unlink("j"), .list("."),
          ]))
    }
    for length in [1, 3, 15, 255, 3055, 3057, 4093, 4095] {
      rows.append(
        Row(
          "a link that leads \(length) bytes away",
          [
            .make("f"), .symlink("l", to: .padded("f", to: length)), .stat("l"), .open("l", O_RDWR), .chmod("l", 0o600),
          ]))
    }
    rows += [
      Row("a link with a target of 4096 bytes", [.symlink("l", to: .long(4096)).fails(.fileNameTooLong)]),
      Row("a link with an empty target", [.symlink("l", to: "").fails(.noSuchFileOrDirectory)]),
      Row("a link with a target nobody can read", [.symlink("l", to: nil).fails(.badAddress)]),
      Row(
        "a target that is no text",
        [
          .symlink("l", to: PathName(bytes: (1...255).map { UInt8($0) })), .readlink("l"), .lstat("l"),
        ]),
    ]
    for kind in Kind.allCases {
      rows.append(
        Row("readlink of a \(kind)", [kind.make("n"), .readlink("n").fails(kind == .link ? nil : .invalidArgument)]))
    }
    return rows
  }

  /// Calls on `.`, `..`, and the names that a store has of its own.
  private static var places: [Row] {
    var rows = [".protectfs", "~", "~" + String(repeating: "A", count: 43), ".name", "lost+found", "...", " ", "\n"].map
    {
      name in
      Row(
        "a file called '\(name)'",
        [
          .make(PathName(name)), .mkdir(PathName(name)).fails(.fileExists), .rename(PathName(name), to: "other"),
          .mkdir(PathName(name)), .list("."), .rmdir(PathName(name)), .list("."),
        ])
    }
    for byte in UInt8.min...UInt8.max where byte != 0 && byte != 0x2F && byte != 0x2E {
      rows.append(
        Row(
          "a name of the byte \(byte)",
          [
            .make(PathName(bytes: [byte])), .lstat(PathName(bytes: [byte])), .unlink(PathName(bytes: [byte])),
            .mkdir(PathName(bytes: [byte, 0x61, byte])), .list("."), .rmdir(PathName(bytes: [byte, 0x61, byte])),
          ]))
    }
    for length in 1...255 where length % 4 == 0 || (170...180).contains(length) || length > 250 {
      rows.append(
        Row(
          "a name of \(length) bytes",
          [
            .make(.long(length)), .link(.long(length), as: .long(length, "o")).compared,
            .rename(.long(length), to: .long(256 - length, "p")), .lstat(.long(256 - length, "p")), .list("."),
            .unlink(.long(256 - length, "p")),
          ]))
    }
    return rows
  }
}
