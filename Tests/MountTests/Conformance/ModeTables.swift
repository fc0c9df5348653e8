import Glibc
import ProtectfsIO
import SystemPackage

/// The kinds of file that a row is made for.
enum Kind: String, CaseIterable {
  case file, directory, fifo, socket, character, block, link

  func make(_ path: PathName, _ mode: Int64 = 0o644) -> Step {
    switch self {
    case .file: .make(path, mode)
    case .directory: .mkdir(path, mode)
    case .fifo: .mkfifo(path, mode)
    case .socket: .mknod(path, Int64(S_IFSOCK) | mode)
    case .character: .mknod(path, Int64(S_IFCHR) | mode, device: 0x103)
    case .block: .mknod(path, Int64(S_IFBLK) | mode, device: 0x103)
    case .link: .symlink(path, to: "nowhere")
    }
  }

  static let withMode = allCases.filter { $0 != .link }
}

func octal(_ mode: Int64) -> String { "0" + String(mode, radix: 8) }

/// Modes: who may set them, and what they allow to whom.
enum ModeTables {
  static let identities: [Identity] = [.root, .owner, .member, .companion, .stranger]

  static var rows: [Row] { chmod + chmodOfAnothersGroup + access + directories + unreadable }

  private static var chmod: [Row] {
    var rows: [Row] = []
    for kind in Kind.withMode {
      for identity in identities {
        let allowed = identity == .root || identity == .owner
        for mode: Int64 in [0o000, 0o111, 0o644, 0o1755, 0o2755, 0o2644, 0o4755, 0o6711, 0o7777] {
          rows.append(
            Row(
              "chmod of a \(kind) to \(octal(mode)) by \(identity)",
              [
                kind.make("n"), .give("n", to: .owner),
                .chmod("n", mode).by(identity).fails(allowed ? nil : .notPermitted),
                .symlink("l", to: "n"),
                .chmod("l", 0o600).by(identity).fails(allowed ? nil : .notPermitted),
              ]))
        }
        rows.append(
          Row(
            "fchmod of a \(kind) by \(identity)",
            [
              kind.make("n", 0o666), .chmod("n", 0o666), .give("n", to: .owner),
              .open("n", O_RDONLY | O_NONBLOCK).compared, .fchmod(0o6711).by(identity).compared,
              .fchmod(0o600).by(identity).compared, .open("n", 0o10000000), .fchmod(0o644).by(identity).compared,
            ]))
      }
    }
    return rows
  }

  /// The set-group-ID bit is not for who is not of the group.
  private static var chmodOfAnothersGroup: [Row] {
    var rows: [Row] = []
    for kind in Kind.withMode {
      for (user, group) in [(65_534, 65_534), (65_534, 65_531), (65_532, 65_531), (65_532, 65_540), (65_533, 0)] {
        for mode: Int64 in [0o2755, 0o2644, 0o6755, 0o3777] {
          for identity in identities where Int(identity.user) == user || identity == .root {
            rows.append(
              Row(
                "chmod of a \(kind) of \(user):\(group) to \(octal(mode)) by \(identity)",
                [
                  kind.make("n"), .lchown("n", Int64(user), Int64(group)), .chmod("n", mode).by(identity),
                  .lstat("n"),
                ]))
          }
        }
      }
    }
    return rows
  }

  private static var access: [Row] {
    var rows: [Row] = []
    let modes = [0o100, 0o010, 0o001, 0o111].flatMap { (who: Int64) in (0..<8).map { (bits: Int64) in bits * who } }
    for mode in Set(modes).sorted() {
      for identity in identities {
        rows.append(
          Row(
            "what \(octal(mode)) allows \(identity) to do with a file",
            [
              .make("f"), .give("f", to: .owner), .chmod("f", mode),
              .access("f", 4).by(identity).compared, .access("f", 2).by(identity).compared,
              .access("f", 1).by(identity).compared, .access("f", 7, effective: false).by(identity).compared,
              .open("f", O_RDONLY).by(identity).compared, .open("f", O_WRONLY).by(identity).compared,
              .open("f", O_RDWR).by(identity).compared, .truncate("f", 10).by(identity).compared,
              .setxattr("f", "user.a", [1]).by(identity).compared, .getxattr("f", "user.a").by(identity).compared,
              .utimens("f", Step.now, Step.now).by(identity).compared,
            ]))
      }
    }
    return rows
  }

  private static var directories: [Row] {
    var rows: [Row] = []
    for mode: Int64 in [0, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600, 0o700, 0o070, 0o007, 0o010, 0o050, 0o001, 0o005] {
      for identity in identities {
        rows.append(
          Row(
            "what \(octal(mode)) allows \(identity) to do in a directory",
            [
              .mkdir("d"), .make("d/f"), .chmod("d/f", 0o666), .give("d", to: .owner), .chmod("d", mode),
              .list("d").by(identity).compared, .stat("d/f").by(identity).compared,
              .open("d/f", O_RDWR).by(identity).compared, .open("d/g", O_RDWR | O_CREAT).by(identity).compared,
              .mkdir("d/h").by(identity).compared, .rename("d/f", to: "d/i").by(identity).compared,
              .unlink("d/i").by(identity).compared, .chdir("d").by(identity).compared,
              .rmdir("d/h").by(identity).compared,
            ]))
      }
    }
    return rows
  }

  /// A file that its owner may write and not read: parts of it are written all the same.
  private static var unreadable: [Row] {
    var rows: [Row] = []
    for mode: Int64 in [0o000, 0o200, 0o222, 0o400, 0o444, 0o020, 0o002] {
      for identity in identities {
        rows.append(
          Row(
            "parts of a file of mode \(octal(mode)) written by \(identity)",
            [
              .open("f", O_RDWR | O_CREAT), .write(pattern(3, count: 9000), at: 0), .close, .give("f", to: .owner),
              .chmod("f", mode), .open("f", O_WRONLY).by(identity).compared,
              .write([1, 2, 3], at: 17).by(identity).compared, .write([4, 5], at: 4095).by(identity).compared,
              .ftruncate(8191).by(identity).compared, .write([6], at: 20_000).by(identity).compared,
              .close.compared, .open("f", O_RDONLY), .read(at: 0, 30_000),
            ]))
      }
    }
    return rows
  }
}
