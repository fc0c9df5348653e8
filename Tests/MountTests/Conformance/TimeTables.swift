import Glibc
import ProtectfsIO
import SystemPackage

/// Times: which call moves which, who may set them, and every value that they can have. All rows of all tables look at
/// the times; here it is their turn.
enum TimeTables {
  static var rows: [Row] { values + special + permissions + calls + reading }

  /// Before 1970, after 2038, after 2106, the last that the backing file system has, and beyond.
  private static let seconds: [Int64] = [
    -2_147_483_648, -1_000_000_000, -1, 0, 1, 1_000_000_000, 2_147_483_647, 2_147_483_648, 4_294_967_295, 4_294_967_296,
    4_400_000_000, 7_258_118_400, 15_032_385_535,
  ]

  private static var values: [Row] {
    var rows: [Row] = []
    for kind in Kind.allCases {
      for seconds in seconds {
        for nanoseconds: Int64 in [0, 1, 999_999_999] {
          rows.append(
            Row(
              "a \(kind) at \(seconds).\(nanoseconds)",
              [
                kind.make("n"), .utimens("n", .init(seconds: seconds, nanoseconds: nanoseconds), .init(seconds: 1)),
                .utimens("n", .init(seconds: 2), .init(seconds: seconds, nanoseconds: nanoseconds)),
                .rename("n", to: "m"), .lstat("m"),
              ]))
        }
      }
    }
    return rows
  }

  /// UTIME_NOW and UTIME_OMIT, nanoseconds that are none, links followed and not, and open descriptors.
  private static var special: [Row] {
    let times: [(String, Step.Time)] = [
      ("now", Step.now), ("omit", Step.omit), ("set", .init(seconds: 5, nanoseconds: 6)),
      ("too many nanoseconds", .init(seconds: 5, nanoseconds: 1_000_000_000)),
      ("negative nanoseconds", .init(seconds: 5, nanoseconds: -1)),
    ]
    var rows: [Row] = []
    for (first, access) in times {
      for (second, modification) in times {
        for kind in Kind.allCases {
          rows.append(
            Row(
              "\(first) and \(second) of a \(kind)",
              [
                kind.make("n"), .utimens("n", .init(seconds: 100, nanoseconds: 1), .init(seconds: 200, nanoseconds: 2)),
                .utimens("n", access, modification).compared, .symlink("l", to: "n"),
                .utimens("l", access, modification).compared, .utimens("l", access, modification, flags: 0).compared,
              ]))
        }
        for flags in [O_RDONLY, O_RDWR, O_WRONLY] {
          rows.append(
            Row(
              "\(first) and \(second) through a descriptor, \(flags)",
              [
                .make("n", 0o600), .open("n", flags), .futimens(.init(seconds: 100), .init(seconds: 200)),
                .futimens(access, modification).compared, .unlink("n"), .futimens(access, modification).compared,
                .fstat,
              ]))
        }
      }
    }
    return rows
  }

  private static var permissions: [Row] {
    var rows: [Row] = []
    let pairs: [(String, Step.Time, Step.Time)] = [
      ("now", Step.now, Step.now), ("set", .init(seconds: 5), .init(seconds: 6)), ("omit", Step.omit, Step.omit),
      ("now and omit", Step.now, Step.omit), ("omit and set", Step.omit, .init(seconds: 6)),
    ]
    for kind in Kind.withMode {
      for mode: Int64 in [0, 0o200, 0o444, 0o666, 0o020, 0o002] {
        for identity in ModeTables.identities {
          rows.append(
            Row(
              "times of a \(kind) of mode \(octal(mode)) set by \(identity)",
              [kind.make("n"), .give("n", to: .owner), .chmod("n", mode)]
                + pairs.map { .utimens("n", $0.1, $0.2).by(identity).compared }))
        }
      }
    }
    return rows
  }

  /// Every call on a file in a directory, once where it succeeds and once where it fails.
  private static var calls: [Row] {
    var rows: [Row] = []
    for call in PathCall.all {
      for kind in Kind.allCases {
        rows.append(
          Row(
            "times after \(call.name) of a \(kind)",
            [
              .make("old"), .mkdir("d"), kind.make("d/n"), .setxattr("d", "user.some", [1]),
              .utimens("d/n", .init(seconds: 1), .init(seconds: 2)),
              .utimens("d", .init(seconds: 3), .init(seconds: 4)),
              call.step("d/n").compared, call.step("d/new").compared, call.step("d/none/new").compared,
              call.step("d/n").by(.stranger).compared,
            ]))
      }
    }
    let changes: [(String, [Step])] = [
      ("write", [.write([1], at: 0)]), ("write of nothing", [.write([], at: 0)]), ("append", [.append([1, 2])]),
      ("ftruncate, shorter", [.ftruncate(10)]), ("ftruncate, longer", [.ftruncate(10_000)]),
      ("ftruncate, the same", [.ftruncate(5000)]), ("fallocate", [.fallocate(0, 0, 9000)]),
      ("fallocate, inside", [.fallocate(0, 0, 100)]),
      ("fallocate, keep size", [.fallocate(1, 0, 9000)]), ("punch", [.fallocate(3, 0, 4096)]),
      ("punch of a part", [.fallocate(3, 10, 100)]),
      ("zero", [.fallocate(16, 100, 100)]), ("map and write", [.mapWrite([1, 2], at: 100)]),
      ("map and write privately", [.mapWrite([1, 2], at: 100, isPrivate: true)]), ("fsync", [.fsync, .fdatasync]),
      ("fchmod", [.fchmod(0o600)]), ("fchown", [.fchown(1, 1)]), ("fchown of nothing", [.fchown(-1, -1)]),
      ("seek", [.seek(0, 3), .seek(0, 4), .seek(100, 0)]), ("fstat", [.fstat]),
    ]
    for (name, steps) in changes {
      rows.append(
        Row(
          "times after \(name)",
          [
            .open("f", O_RDWR | O_CREAT), .write(pattern(7, count: 5000), at: 0), .fsync,
            .utimens("f", .init(seconds: 1), .init(seconds: 2)),
          ] + steps + [.fsync, .close, .lstat("f")]))
    }
    for flags in [O_RDONLY, O_WRONLY, O_RDWR, O_RDWR | O_TRUNC, O_RDWR | O_CREAT, O_RDWR | O_CREAT | O_TRUNC] {
      for size: Int64 in [0, 100] {
        rows.append(
          Row(
            "times after open with \(flags) of \(size) bytes",
            [
              .make("f"), .truncate("f", size), .utimens("f", .init(seconds: 1), .init(seconds: 2)), .open("f", flags),
              .close,
            ]))
      }
    }
    return rows
  }

  /// Reading moves the access time, at least once (`relatime`).
  private static var reading: [Row] {
    [
      Row(
        "the access time of a directory that is read",
        [
          .mkdir("d"), .make("d/f"), .utimens("d", .init(seconds: 1), .init(seconds: 2)), .list("d"), .list("d"),
          .utimens("d", .init(seconds: 1), .init(seconds: 2)), .open("d", O_RDONLY | 0o1000000), .getdents, .getdents,
        ])
    ]
  }
}
