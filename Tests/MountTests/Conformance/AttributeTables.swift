import Glibc
import ProtectfsIO
import SystemPackage

/// Extended attributes and ACLs.
enum AttributeTables {
  static var rows: [Row] { values + names + kinds + spaces + lists + accessLists + defaultLists }

  private static let create: Int64 = 1
  private static let replace: Int64 = 2

  private static var values: [Row] {
    var rows: [Row] = []
    for kind in [Kind.file, .directory] {
      for size in [0, 1, 15, 16, 64, 255, 1000, 2000, 3000] {
        let value = pattern(size, count: size)
        rows.append(
          Row(
            "a value of \(size) bytes of a \(kind)",
            [
              kind.make("n"), .getxattr("n", "user.a").fails(.noData), .removexattr("n", "user.a").fails(.noData),
              .setxattr("n", "user.a", value, flags: replace).fails(.noData),
              .setxattr("n", "user.a", value, flags: create),
              .setxattr("n", "user.a", value, flags: create).fails(.fileExists), .getxattr("n", "user.a"),
              .getxattr("n", "user.a", capacity: 0).compared,
              .getxattr("n", "user.a", capacity: max(1, size - 1)).compared,
              .getxattr("n", "user.a", capacity: max(1, size)), .setxattr("n", "user.a", [1], flags: replace),
              .getxattr("n", "user.a"), .setxattr("n", "user.a", value),
              .setxattr("n", "user.a", value, flags: 3).compared,
              .setxattr("n", "user.a", value, flags: 4).fails(.invalidArgument), .rename("n", to: "m"), .listxattr("m"),
              .listxattr("m", capacity: 1).fails(.outOfRange), .removexattr("m", "user.a"), .listxattr("m"),
              .listxattr("m", capacity: 1),
            ]))
      }
      rows.append(
        Row(
          "a value that is too large, of a \(kind)",
          [
            kind.make("n"), .setxattr("n", "user.a", pattern(1, count: 65_537)).fails(.argListTooLong),
            .setxattr("n", "user.a", pattern(1, count: 65_536)).compared, .listxattr("n").compared,
          ]))
    }
    return rows
  }

  private static var names: [Row] {
    var rows: [Row] = []
    let names = [
      "", "user", "user.", "user.x", "other.x", "trusted.", "security.", "system.", "system.x", "user.ä\n", "USER.x",
      ".user", "x",
    ]
    for kind in [Kind.file, .directory] {
      for name in names + [200, 249, 250, 251, 255].map({ "user." + String(repeating: "n", count: $0) }) {
        let name = PathName(name)
        rows.append(
          Row(
            "an attribute '\(name)' of a \(kind)",
            [
              kind.make("n"), .setxattr("n", name, [1]).compared, .getxattr("n", name).compared, .listxattr("n"),
              .removexattr("n", name).compared, .getxattr("n", name).compared,
            ]))
      }
      rows.append(
        Row(
          "attributes at addresses that are none, of a \(kind)",
          [
            kind.make("n"), .setxattr("n", nil, [1]).fails(.badAddress), .getxattr("n", nil).fails(.badAddress),
            .removexattr("n", nil).fails(.badAddress),
          ]))
    }
    return rows
  }

  /// What may have attributes, and who may set them.
  private static var kinds: [Row] {
    var rows: [Row] = []
    for kind in Kind.allCases {
      for identity in ModeTables.identities {
        for name: PathName in ["user.a", "trusted.a", "security.a"] {
          rows.append(
            Row(
              "\(name) of a \(kind) by \(identity)",
              [
                kind.make("n"), .give("n", to: .owner), .setxattr("n", name, [1, 2]).by(identity).compared,
                .getxattr("n", name).by(identity).compared, .listxattr("n").by(identity).compared,
                .removexattr("n", name).by(identity).compared, .setxattr("n", name, [3]).compared,
                .getxattr("n", name).by(identity).compared, .listxattr("n").by(identity).compared,
                .removexattr("n", name).by(identity).compared,
              ]))
        }
      }
    }
    for owner in [Identity.owner, .stranger] {
      rows.append(
        Row(
          "user.a of a sticky directory of \(owner)",
          [
            .mkdir("d"), .chmod("d", 0o1777), .give("d", to: owner),
            .setxattr("d", "user.a", [1]).by(.stranger).compared,
            .setxattr("d", "user.a", [1]).by(.owner).compared,
          ]))
    }
    return rows
  }

  private static var spaces: [Row] {
    [Kind.file, .directory].map { kind in
      Row(
        "attributes of every space of a \(kind)",
        [
          kind.make("n"), .setxattr("n", "user.a", [1]), .setxattr("n", "trusted.a", [2]),
          .setxattr("n", "security.a", [3]),
          .setxattr("n", "trusted.overlay.opaque", Array("y".utf8)), .listxattr("n"), .listxattr("n").by(.stranger),
          .getxattr("n", "trusted.a"), .getxattr("n", "user.a"), .getxattr("n", "security.a"),
        ])
    }
  }

  private static var lists: [Row] {
    [Kind.file, .directory].map { kind in
      Row(
        "many attributes of a \(kind)",
        [kind.make("n")] + (0..<20).map { .setxattr("n", PathName("user.a\($0)"), [UInt8($0)]) }
          + [.listxattr("n"), .listxattr("n", capacity: 100).fails(.outOfRange)]
          + (0..<20).map { .getxattr("n", PathName("user.a\($0)")) } + [.removexattr("n", "user.a7"), .listxattr("n")])
    }
  }

  // MARK: POSIX ACLs

  /// An entry of an ACL as the kernel takes it (linux/posix_acl_xattr.h).
  private static func entry(_ tag: UInt16, _ permissions: UInt16, _ identifier: UInt32 = .max) -> [UInt8] {
    [tag, permissions].flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
      + (0..<4).map { UInt8(truncatingIfNeeded: identifier >> (8 * UInt32($0))) }
  }

  private static func list(_ entries: [UInt8]...) -> [UInt8] { [2, 0, 0, 0] + entries.flatMap { $0 } }

  private static let (owner, user, group, namedGroup, mask, other): (UInt16, UInt16, UInt16, UInt16, UInt16, UInt16) =
    (1, 2, 4, 8, 16, 32)

  private static let samples: [(String, [UInt8])] = [
    ("named user", list(entry(owner, 6), entry(user, 6, 65_534), entry(group, 4), entry(mask, 6), entry(other, 0))),
    ("masked user", list(entry(owner, 6), entry(user, 7, 65_534), entry(group, 4), entry(mask, 4), entry(other, 0))),
    ("refused user", list(entry(owner, 7), entry(user, 0, 65_534), entry(group, 7), entry(mask, 7), entry(other, 7))),
    (
      "named group",
      list(entry(owner, 6), entry(group, 0), entry(namedGroup, 6, 65_540), entry(mask, 7), entry(other, 0))
    ),
    ("modes only", list(entry(owner, 6), entry(group, 4), entry(other, 4))),
    ("no owner", list(entry(group, 4), entry(other, 4))),
    ("no mask", list(entry(owner, 6), entry(user, 6, 65_534), entry(group, 4), entry(other, 0))),
    ("twice", list(entry(owner, 6), entry(owner, 6), entry(group, 4), entry(other, 4))),
    ("unsorted", list(entry(other, 4), entry(group, 4), entry(owner, 6))),
    ("other permissions", list(entry(owner, 8), entry(group, 4), entry(other, 4))),
    ("another version", [3, 0, 0, 0] + entry(owner, 6) + entry(group, 4) + entry(other, 4)),
    ("half an entry", list(entry(owner, 6), [4, 0, 4])), ("empty", list()), ("short", [2, 0]),
  ]

  private static var accessLists: [Row] {
    var rows: [Row] = []
    let name: PathName = "system.posix_acl_access"
    for kind in Kind.allCases {
      for (sample, value) in samples {
        rows.append(
          Row(
            "ACL '\(sample)' of a \(kind)",
            [
              kind.make("n", 0o640), .give("n", to: .owner), .setxattr("n", name, value).by(.stranger).compared,
              .setxattr("n", name, value).by(.owner).compared, .getxattr("n", name).compared, .listxattr("n").compared,
            ]
              + ModeTables.identities.flatMap { identity in
                [
                  Step.access("n", 4).by(identity).compared, .access("n", 2).by(identity).compared,
                  .access("n", 1).by(identity).compared,
                ]
              } + [
                .open("n", O_RDWR | O_NONBLOCK).by(.stranger).compared,
                .open("n", O_RDONLY | O_NONBLOCK).by(.member).compared,
                .chmod("n", 0o4750).compared, .getxattr("n", name).compared, .chmod("n", 0o600).by(.owner).compared,
                .getxattr("n", name).compared, .access("n", 4).by(.stranger).compared, .removexattr("n", name).compared,
                .lstat("n"), .access("n", 4).by(.stranger).compared,
              ]))
      }
    }
    return rows
  }

  private static var defaultLists: [Row] {
    var rows: [Row] = []
    let name: PathName = "system.posix_acl_default"
    for (sample, value) in samples {
      for umask: UInt32 in [0, 0o077] {
        for identity in [Identity.root, .stranger] {
          for mode: Int64 in [0o777, 0o644, 0o2770] {
            rows.append(
              Row(
                "default ACL '\(sample)', umask \(octal(Int64(umask))), \(octal(mode)) by \(identity)",
                [
                  .mkdir("d"), .chmod("d", 0o777), .setxattr("d", name, value).compared, .getxattr("d", name).compared,
                  .open("d/f", O_RDWR | O_CREAT, mode).by(identity).masked(umask),
                  .mkdir("d/d", mode).by(identity).masked(umask),
                  .mkfifo("d/p", mode).by(identity).masked(umask),
                  .mknod("d/n", Int64(S_IFREG) | mode).by(identity).masked(umask),
                  .symlink("d/l", to: "f").by(identity).masked(umask),
                  .getxattr("d/f", "system.posix_acl_access").compared,
                  .getxattr("d/d", "system.posix_acl_access").compared,
                  .getxattr("d/d", name).compared, .getxattr("d/p", "system.posix_acl_access").compared,
                  .open("d/f", O_RDONLY).by(.stranger).compared, .listxattr("d/f"), .listxattr("d/d"),
                  .removexattr("d", name).compared,
                ]))
          }
        }
      }
    }
    rows.append(
      Row(
        "a default ACL is for directories",
        [
          .make("f"), .setxattr("f", name, samples[0].1).compared, .mkdir("d"), .give("d", to: .owner),
          .setxattr("d", name, samples[0].1).by(.stranger).compared,
          .setxattr("d", name, samples[0].1).by(.owner).compared,
          .setxattr("d", name, []).compared,
        ]))
    return rows
  }
}
