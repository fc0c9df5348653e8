import Glibc
import ProtectfsIO
import SystemPackage

/// Owners: who may give files away, and the set-id bits that go with it or with a change of the contents.
enum OwnerTables {
  static var rows: [Row] { chown + unchanged + setID + created }

  private static let modes: [Int64] = [0o777, 0o6777, 0o2755, 0o2767, 0o2666, 0o6766, 0o4666]

  private static var chown: [Row] {
    var rows: [Row] = []
    let targets: [(Int64, Int64)] = [
      (65_531, 65_531), (65_534, -1), (-1, 65_540), (-1, 65_531), (-1, 65_534), (65_532, 65_540), (-1, -1), (0, 0),
      (65_532, -1),
    ]
    for kind in [Kind.file, .directory, .fifo, .link] {
      for identity in ModeTables.identities {
        for (user, group) in targets {
          for owner in [Identity.owner, .member] {
            rows.append(
              Row(
                "chown of a \(kind) of \(owner) to \(user):\(group) by \(identity)",
                [
                  kind.make("n"), .give("n", to: owner), .lchown("n", user, group).by(identity).compared,
                  .symlink("l", to: "n"), .chown("l", user, group).by(identity).compared,
                  .lchown("l", user, group).by(identity).compared,
                ]))
          }
        }
      }
    }
    return rows
  }

  /// A change of owner to the same takes set-id bits away, as every other does; of a directory it does not.
  private static var unchanged: [Row] {
    var rows: [Row] = []
    for kind in [Kind.file, .directory, .fifo] {
      for mode in modes {
        for (user, group) in [(-1, -1), (65_532, 65_540), (-1, 65_540), (65_532, -1), (65_531, -1), (-1, 65_532)] {
          for identity in [Identity.root, .member, .owner] {
            rows.append(
              Row(
                "chown of a \(kind) of mode \(octal(mode)) to \(user):\(group) by \(identity)",
                [
                  kind.make("n"), .lchown("n", 65_532, 65_540), .chmod("n", mode),
                  .chown("n", Int64(user), Int64(group)).by(identity).compared,
                ]))
          }
        }
      }
    }
    return rows
  }

  /// Set-id bits after each kind of change to the contents.
  private static var setID: [Row] {
    let changes: [(String, Bool, [Step])] = [
      ("write", true, [.write([1, 2, 3], at: 0)]),
      ("write of nothing", true, [.write([], at: 0)]),
      ("append", true, [.append([1, 2, 3])]),
      ("ftruncate", true, [.ftruncate(100)]),
      ("ftruncate to the same", true, [.ftruncate(5000)]),
      ("fallocate", true, [.fallocate(0, 0, 10_000)]),
      ("fallocate, keep size", true, [.fallocate(1, 0, 10_000)]),
      ("fallocate, punch", true, [.fallocate(3, 0, 4096)]),
      ("fallocate, zero", true, [.fallocate(16, 10, 100)]),
      ("copy_file_range", true, [.open("other", O_RDWR).on(1), .copy(0, to: 200, 100).on(1).into(0)]),
      ("mapping", true, [.mapWrite([9, 9], at: 100)]),
      ("truncate", false, [.truncate("f", 100)]),
      ("truncate to the same", false, [.truncate("f", 5000)]),
      ("open with O_TRUNC", false, [.open("f", O_RDWR | O_TRUNC)]),
      ("setxattr", false, [.setxattr("f", "user.a", [1])]),
      ("utimens", false, [.utimens("f", Step.now, Step.now)]),
      ("link", false, [.link("f", as: "g")]),
      ("rename", false, [.rename("f", to: "g")]),
    ]
    var rows: [Row] = []
    for (name, needsFile, steps) in changes {
      for mode in modes {
        for identity in ModeTables.identities {
          rows.append(
            Row(
              "\(name) of a file of mode \(octal(mode)) by \(identity)",
              [
                .open("f", O_RDWR | O_CREAT), .write(pattern(5, count: 5000), at: 0), .close, .make("other", 0o666),
                .chmod("other", 0o666), .truncate("other", 5000), .give("f", to: .owner), .chmod("f", mode),
              ] + (needsFile ? [.open("f", O_RDWR).by(identity).compared] : [])
                + steps.map { $0.by(identity).compared } + [.lstat("f").compared, .lstat("other")]))
        }
      }
    }
    return rows
  }

  /// Whose a new file is, and of which mode: in set-group-ID directories, and under a umask.
  private static var created: [Row] {
    var rows: [Row] = []
    for directoryMode: Int64 in [0o777, 0o2777, 0o5777] {
      for group: Int64 in [65_531, 65_534, 0] {
        for identity in ModeTables.identities {
          for mode: Int64 in [0o644, 0o2755, 0o6777, 0o2644] {
            let umask: UInt32 = mode == 0o6777 ? 0 : mode == 0o644 ? 0o077 : 0o022
            rows.append(
              Row(
                "made in a directory of mode \(octal(directoryMode)) of \(group) by \(identity), \(octal(mode))",
                [
                  .mkdir("d"), .lchown("d", 65_531, group), .chmod("d", directoryMode),
                  .open("d/f", O_RDWR | O_CREAT, mode).by(identity).masked(umask),
                  .mkdir("d/d", mode).by(identity).masked(umask), .mkfifo("d/p", mode).by(identity).masked(umask),
                  .mknod("d/s", Int64(S_IFSOCK) | mode).by(identity).masked(umask),
                  .mknod("d/n", Int64(S_IFREG) | mode).by(identity).masked(umask),
                  .mknod("d/c", Int64(S_IFCHR) | mode, device: 0x103).by(identity).masked(umask).compared,
                  .mknod("d/b", Int64(S_IFBLK) | mode, device: 0x801).by(identity).masked(umask).compared,
                  .symlink("d/l", to: "f").by(identity).masked(umask),
                ]))
          }
        }
      }
    }
    return rows
  }
}
