import Glibc
import ProtectfsIO
import SystemPackage

/// Contents: lengths around the edges of blocks and units, holes, allocation, copies, mappings, files without a name.
enum ContentTables {
  static var rows: [Row] { lengths + parts + allocation + errors + holes + copies + opening + nameless + direct }

  private static let edges: [Int64] = [0, 1, 15, 16, 17, 31, 33, 4079, 4080, 4081, 4095, 4096, 4097, 4112, 8191, 8193]

  private static func filled(_ count: Int64) -> [Step] {
    [.open("f", O_RDWR | O_CREAT)] + (count > 0 ? [.write(pattern(9, count: Int(count)), at: 0)] : [])
  }

  private static var lengths: [Row] {
    var rows: [Row] = []
    for from in edges {
      for to in edges {
        rows.append(
          Row(
            "\(from == to ? "same length: " : "")\(from) bytes truncated to \(to)",
            filled(from) + [
              .truncate("f", to), .read(at: 0, 16_384), .ftruncate(from), .read(at: 0, 16_384), .write([1], at: to),
              .read(at: 0, 16_384), .fsync,
            ]))
      }
    }
    return rows
  }

  private static var parts: [Row] {
    var rows: [Row] = []
    for size in edges {
      for offset in edges + [12_288, 20_001] {
        for count in [1, 5000] {
          rows.append(
            Row(
              "\(count) bytes written at \(offset) of \(size)",
              filled(size) + [
                .fsync, .write(pattern(11, count: count), at: offset), .read(at: 0, 32_768), .read(at: offset, 10),
              ]))
        }
      }
    }
    return rows
  }

  private static var allocation: [Row] {
    var rows: [Row] = []
    for mode: Int64 in [0, 1, 3, 16, 17] {
      for size: Int64 in [0, 17, 4095, 4096, 9000] {
        for (offset, length): (Int64, Int64) in [
          (0, 1), (0, 4096), (5, 20), (4090, 10), (4096, 4096), (1, 8191), (100, 20_000), (8192, 1), (20_000, 16),
        ] {
          rows.append(
            Row(
              "fallocate \(mode) of \(length) at \(offset) in \(size) bytes",
              filled(size) + [.fallocate(mode, offset, length), .read(at: 0, 32_768), .fstat, .fsync]))
        }
      }
    }
    for (offset, length): (Int64, Int64) in [
      (0, 1), (0, 4096), (4000, 5000), (10, 0), (-1, 10), (10, -1), (1 << 62, 1 << 62),
    ] {
      rows.append(
        Row(
          "posix_fallocate of \(length) at \(offset)",
          filled(100) + [.posixFallocate(offset, length).compared, .read(at: 0, 16_384)]))
    }
    return rows
  }

  private static var errors: [Row] {
    var rows: [Row] = [
      Row(
        "lengths that are none",
        [
          .make("f"), .truncate("f", -1).fails(.invalidArgument), .truncate("f", .min).fails(.invalidArgument),
          .truncate("f", .max).fails(.fileTooLarge), .open("f", O_RDWR), .ftruncate(-1).fails(.invalidArgument),
          .ftruncate(.max).fails(.fileTooLarge), .truncate("f", 1 << 44).fails(.fileTooLarge), .ftruncate(1 << 43),
          .fstat, .ftruncate(0),
        ]),
      Row(
        "offsets that are none",
        [
          .open("f", O_RDWR | O_CREAT), .write([1], at: -1).fails(.invalidArgument),
          .read(at: -1, 1).fails(.invalidArgument),
          .write([1], at: .max).compared,
          .read(at: 1 << 50, 1), .fallocate(0, -1, 1).fails(.invalidArgument),
          .fallocate(0, 0, 0).fails(.invalidArgument),
          .fallocate(0, 0, -1).fails(.invalidArgument), .fallocate(0, 1 << 44, 1).fails(.fileTooLarge),
          .fallocate(2, 0, 1).fails(.notSupportedOnSocket), .fallocate(0x80, 0, 1).compared,
        ]),
      Row("collapse and insert", filled(9000) + [.fallocate(8, 0, 4096).compared, .fallocate(32, 0, 4096).compared]),
      Row(
        "a write behind the longest file",
        [
          .open("f", O_RDWR | O_CREAT), .write([1], at: 1 << 44).fails(.fileTooLarge), .unlink("f"),
        ]),
      Row(
        "a directory has no contents",
        [
          .mkdir("d"), .open("d", O_RDWR).fails(.isDirectory), .open("d", O_WRONLY).fails(.isDirectory),
          .open("d", O_RDONLY | O_TRUNC).compared, .truncate("d", 0).fails(.isDirectory), .open("d", O_RDONLY),
          .read(at: 0, 1).fails(.isDirectory), .ftruncate(0).compared, .fallocate(0, 0, 1).compared,
          .open("d", O_RDONLY | O_CREAT).fails(.isDirectory),
        ]),
    ]
    for kind in Kind.allCases where kind != .file {
      rows.append(
        Row(
          "truncate of a \(kind)",
          [
            kind.make("n"), .truncate("n", 0).compared, .open("n", O_RDONLY | O_NONBLOCK | O_TRUNC).compared,
            .open("n", O_RDONLY | O_DIRECTORY).compared, .open("n", O_RDONLY | O_NOFOLLOW | O_NONBLOCK).compared,
            .open("n", O_CREAT | O_EXCL).fails(.fileExists),
          ]))
    }
    for flags in [O_RDONLY, O_WRONLY] {
      rows.append(
        Row(
          "a descriptor opened with \(flags)",
          [
            .make("f"), .truncate("f", 100), .open("f", flags), .read(at: 0, 10).compared, .write([1], at: 0).compared,
            .ftruncate(1).compared, .fallocate(0, 0, 10).compared, .posixFallocate(0, 10).compared,
            .mapWrite([1], at: 0).compared, .mapRead(at: 0, 10).compared,
            .mapWrite([1], at: 0, isPrivate: true).compared,
            .fsync, .fchmod(0o600),
          ]))
    }
    return rows
  }

  private static var holes: [Row] {
    var rows: [Row] = []
    for size: Int64 in [0, 4096, 100_000, 1 << 40] {
      for data: Int64 in [0, 4096, 65_536, 1 << 40] {
        let places: [Int64] = [0, 1, 4095, 4096, 65_535, 65_536, 65_537, 99_999, 100_000, size, data, data + 4096]
        rows.append(
          Row(
            "data at \(data) of \(size) bytes",
            [
              .open("f", O_RDWR | O_CREAT), .ftruncate(size), .write(pattern(2, count: 4096), at: data), .fsync,
            ] + places.flatMap { [.seek($0, 3).compared, .seek($0, 4).compared] } + [
              .read(at: data, 4096), .read(at: size / 2, 64), .fallocate(3, data, 4096), .seek(0, 3).compared,
              .seek(-1, 3).compared,
              .seek(-1, 4).compared, .ftruncate(0),
            ]))
      }
    }
    return rows
  }

  private static var copies: [Row] {
    var rows: [Row] = []
    for (from, to, count): (Int64, Int64, Int64) in [
      (0, 0, 100), (0, 0, 9000), (100, 200, 5000), (8999, 0, 100), (9000, 0, 10), (20_000, 0, 10), (0, 20_000, 4096),
      (0, 0, 0),
    ] {
      rows.append(
        Row(
          "\(count) bytes copied from \(from) to \(to)",
          filled(9000) + [
            .open("g", O_RDWR | O_CREAT).on(1), .write(pattern(4, count: 6000), at: 0).on(1),
            .copy(from, to: to, count),
            .read(at: 0, 32_768).on(1), .copy(from, to: to, count).into(0).compared, .read(at: 0, 32_768),
            .copy(from, to: to, count, flags: 1).fails(.invalidArgument),
          ]))
    }
    rows.append(
      Row(
        "copies that are none",
        filled(100) + [
          .open("g", O_RDONLY | O_CREAT).on(1), .copy(0, to: 0, 10).compared, .mkdir("d"), .open("d", O_RDONLY).on(1),
          .copy(0, to: 0, 10).compared, .copy(0, to: 0, 10).on(1).into(0).compared, .mkfifo("p"),
          .open("p", O_RDWR).on(1), .copy(0, to: 0, 10).compared, .open("f", O_WRONLY | O_APPEND).on(1),
          .copy(0, to: 0, 10).compared,
        ]))
    return rows
  }

  private static var opening: [Row] {
    var rows: [Row] = []
    let temporary: CInt = 0o20200000
    rows.append(Row("O_TMPFILE", [.mkdir("d"), .open("d", temporary | O_RDWR).compared]))
    for extra in [
      0, O_CREAT, O_EXCL, O_CREAT | O_EXCL, O_DIRECTORY, O_CREAT | O_DIRECTORY, O_NOFOLLOW, O_CREAT | O_NOFOLLOW,
      O_APPEND, O_SYNC,
    ] {
      for flags in [O_RDONLY, O_WRONLY, O_RDWR] {
        rows.append(
          Row(
            "open with \(flags | extra)",
            [
              .make("f"), .mkdir("d"), .symlink("l", to: "f"), .symlink("dl", to: "d"), .symlink("nl", to: "new"),
              .open("f", flags | extra).compared, .open("d", flags | extra).compared,
              .open("l", flags | extra).compared,
              .open("dl", flags | extra).compared, .open("nl", flags | extra).compared,
              .open("none", flags | extra, 0o600).compared,
              .open("f", flags | extra).by(.stranger).compared,
            ]))
      }
    }
    rows.append(
      Row(
        "created without permission for the creator",
        [
          .open("f", O_RDWR | O_CREAT, 0).by(.owner), .write([1, 2, 3], at: 0), .read(at: 0, 10), .close,
          .open("f", O_RDWR).by(.owner).fails(.permissionDenied),
          .open("f", O_RDONLY | O_CREAT).by(.owner).fails(.permissionDenied),
        ]))
    rows.append(
      Row(
        "O_NOATIME is for the owner",
        [
          .make("f", 0o666), .chmod("f", 0o666), .give("f", to: .owner), .open("f", O_RDONLY | 0o1000000).by(.owner),
          .open("f", O_RDONLY | 0o1000000).by(.stranger).fails(.notPermitted),
        ]))
    return rows
  }

  private static var nameless: [Row] {
    let uses: [Step] = [
      .fstat, .write([7, 8, 9], at: 5000), .read(at: 0, 9000), .ftruncate(10_000), .fchmod(0o600),
      .fchown(65_531, 65_531),
      .mapWrite([1, 2, 3], at: 8000), .mapRead(at: 7990, 100), .futimens(.init(seconds: 10), .init(seconds: 20)),
      .fsync,
      .fallocate(0, 0, 20_000), .seek(0, 3).compared, .fstat, .make("f"), .fstat, .read(at: 0, 30_000), .close,
      .lstat("f"),
    ]
    return [
      Row("a file unlinked while open", filled(4000) + [.unlink("f")] + uses),
      Row("a file replaced while open", filled(4000) + [.make("g"), .rename("g", to: "f"), .unlink("f")] + uses),
      Row("a file unlinked while one name is left", filled(4000) + [.link("f", as: "g"), .unlink("f")] + uses),
      Row(
        "a directory removed while open",
        [
          .mkdir("d"), .open("d", O_RDONLY), .rmdir("d"), .fstat, .getdents.compared, .fchmod(0o700),
          .futimens(Step.now, Step.now).compared,
          .fsync.compared, .mkdir("d"), .fstat,
        ]),
    ]
  }

  /// O_DIRECT and O_SYNC: the same contents, past the cache.
  private static var direct: [Row] {
    [O_SYNC, 0o40000, 0o40000 | O_SYNC, O_APPEND, O_DSYNC].map { flags in
      Row(
        "contents through \(flags)",
        [
          .open("f", O_RDWR | O_CREAT | flags), .append(pattern(1, count: 8192)), .read(at: 0, 4096).compared, .fstat,
          .append(pattern(2, count: 4096)), .fstat, .open("f", O_RDONLY), .read(at: 0, 20_000),
        ])
    }
  }
}
