import Glibc
import ProtectfsIO
import SystemPackage

/// What every call that takes a path answers to a path that leads nowhere.
enum PathTables {
  static var rows: [Row] { lengths + ways + loops + endings + permissions }

  /// Components of up to 255 bytes, paths of up to 4095.
  private static var lengths: [Row] {
    var rows: [Row] = []
    for call in PathCall.all {
      rows.append(
        Row(
          "\(call.name): a component of 256 bytes",
          [
            .make("old"), .mkdir("d"),
            call.step(.long(256)).fails(.fileNameTooLong),
            call.step(PathName("d/" + String(repeating: "x", count: 256))).fails(.fileNameTooLong),
            call.step(PathName(String(repeating: "x", count: 256) + "/y")).fails(.fileNameTooLong),
          ]))
      rows.append(
        Row(
          "\(call.name): a path of 4096 bytes",
          [
            .make("old"), .make("f"),
            call.step(.padded("f", to: 4096)).fails(.fileNameTooLong),
            call.step(.padded("f", to: 5000)).fails(.fileNameTooLong),
          ]))
      rows.append(
        Row(
          "\(call.name): a path of 4095 bytes",
          [
            .make("old"), .make("f"), call.step(.padded("f", to: 4095)).compared,
            .make("old").compared, call.step(.padded("new", to: 4095)).compared,
          ]))
      rows.append(
        Row(
          "\(call.name): names of 255, 176 and 175 bytes",
          [
            .make("old"), call.step(.long(255)).compared, .make("old").compared, call.step(.long(176)).compared,
            .make("old").compared, call.step(.long(175)).compared, .list("."),
          ]))
      rows.append(
        Row("\(call.name): a path nobody can read", [.make("old"), call.step(nil).fails(.badAddress)]))
      rows.append(
        Row("\(call.name): an empty path", [.make("old"), call.step("").fails(.noSuchFileOrDirectory)]))
    }
    return rows
  }

  /// Through what is no directory, and what is not there.
  private static var ways: [Row] {
    var rows: [Row] = []
    for call in PathCall.all {
      for kind in Kind.allCases where kind != .directory && kind != .link {
        rows.append(
          Row(
            "\(call.name): through a \(kind)",
            [
              .make("old"), kind.make("n"), call.step("n/x").fails(.notDirectory),
              .symlink("l", to: "n"), call.step("l/x").fails(.notDirectory),
            ]))
      }
      rows.append(
        Row(
          "\(call.name): through nothing",
          [
            .make("old"), call.step("none/x").fails(.noSuchFileOrDirectory),
            .symlink("l", to: "none"), call.step("l/x").fails(.noSuchFileOrDirectory),
            .symlink("m", to: "l"), call.step("m/x").fails(.noSuchFileOrDirectory),
          ]))
    }
    for call in PathCall.onExisting {
      rows.append(
        Row(
          "\(call.name): nothing",
          [
            .mkdir("d"), call.step("none").fails(.noSuchFileOrDirectory),
            call.step("d/none").fails(.noSuchFileOrDirectory),
          ]))
    }
    return rows
  }

  /// Links that lead in a circle, and chains of a length that is still followed, and longer ones.
  ///
  /// Of the 40 links that are followed (path_resolution(7)) half are sure: a walk that begins anew, as it does where
  /// anything is mounted meanwhile, by any process of the machine, keeps its count (`total_link_count` in fs/namei.c).
  private static var loops: [Row] {
    var rows: [Row] = []
    for call in PathCall.all {
      rows.append(
        Row(
          "\(call.name): through a circle of links",
          [
            .make("old"), .symlink("a", to: "b"), .symlink("b", to: "a"), .symlink("self", to: "self"),
            call.step("a/x").fails(.tooManySymbolicLinkLevels), call.step("self/x").fails(.tooManySymbolicLinkLevels),
          ]))
      rows.append(
        Row(
          "\(call.name): a circle of links",
          [
            .make("old"), .symlink("a", to: "b"), .symlink("b", to: "a"), call.step("a").compared,
          ]))
      let chain = (0...40).map { Step.symlink(PathName("l\($0)"), to: $0 == 0 ? "d" : PathName("l\($0 - 1)")) }
      rows.append(
        Row(
          "\(call.name): through 41 links and through 20",
          [
            .mkdir("d"), .make("d/f"), .make("old"),
          ] + chain + [
            call.step("l40/f").fails(.tooManySymbolicLinkLevels), call.step("l19/f").compared,
          ]))
    }
    return rows
  }

  /// Slashes and dots at the end.
  private static var endings: [Row] {
    var rows: [Row] = []
    for call in PathCall.all {
      for kind in Kind.allCases {
        rows.append(
          Row("\(call.name): a \(kind)", [.make("old"), kind.make("n"), call.step("n").compared]))
        rows.append(
          Row("\(call.name): a \(kind) and a slash", [.make("old"), kind.make("n"), call.step("n/").compared]))
        rows.append(
          Row(
            "\(call.name): a link to a \(kind)",
            [
              .make("old"), kind.make("n"), .symlink("l", to: "n"), call.step("l").compared,
            ]))
      }
      for path: PathName in [".", "..", "d/.", "d/..", "d/", "d//", "none/", "to/", "./none", "d/../f"] {
        if call.name == "chmod" || call.name.hasPrefix("utimens"), path == ".." { continue }
        rows.append(
          Row(
            "\(call.name): '\(path)'",
            [
              .make("old"), .make("f"), .mkdir("d"), .symlink("to", to: "d"), call.step(path).compared,
            ]))
      }
      rows.append(
        Row("\(call.name): a link to nothing", [.make("old"), .symlink("l", to: "none"), call.step("l").compared]))
      rows.append(
        Row(
          "\(call.name): a directory with something in it",
          [
            .make("old"), .mkdir("d"), .make("d/f"), call.step("d").compared,
          ]))
    }
    return rows
  }

  /// Directories that may not be searched, and that may not be written.
  private static var permissions: [Row] {
    var rows: [Row] = []
    for call in PathCall.all {
      for mode: Int64 in [0o000, 0o666, 0o677, 0o766] {
        rows.append(
          Row(
            "\(call.name): in a directory of mode \(String(mode, radix: 8)) that is another's",
            [
              .make("old"), .chmod("old", 0o666), .give("old", to: .stranger), .mkdir("d"), .make("d/f"),
              .give("d/f", to: .stranger), .give("d", to: .owner), .chmod("d", mode),
              call.step("d/f").by(.stranger).compared, call.step("d/new").by(.stranger).compared,
              call.step("d/f").by(.owner).compared,
            ]))
      }
      for mode: Int64 in [0o555] {
        for identity in [Identity.owner, .member, .stranger] {
          rows.append(
            Row(
              "\(call.name): in a directory of mode \(String(mode, radix: 8)) by \(identity)",
              [
                .make("old"), .give("old", to: identity), .mkdir("d"), .make("d/f"), .give("d/f", to: identity),
                .give("d", to: .owner), .chmod("d", mode), call.step("d/f").by(identity).compared,
                call.step("d/new").by(identity).compared,
              ]))
        }
      }
    }
    return rows
  }
}
