import Glibc
import ProtectfsIO
import SystemPackage

/// Directories with the sticky bit: names may be taken by the owner of the file, that of the directory, and root.
enum StickyTables {
  static var rows: [Row] {
    var rows: [Row] = []
    let people: [Identity] = [.owner, .member, .stranger]
    for directoryOwner in people + [.root] {
      for fileOwner in people + [.root] {
        for caller in people + [.root] {
          let may = caller == .root || caller == directoryOwner || caller == fileOwner
          for kind in [Kind.file, .directory] {
            rows += self.rows(directoryOwner, fileOwner, caller, kind, may)
          }
        }
      }
    }
    return rows
  }

  private static func rows(
    _ directoryOwner: Identity, _ fileOwner: Identity, _ caller: Identity, _ kind: Kind, _ may: Bool
  ) -> [Row] {
    let name = "a \(kind) of \(fileOwner) in a sticky directory of \(directoryOwner), by \(caller)"
    let setUp: [Step] = [
      .mkdir("d"), .chmod("d", 0o1777), .give("d", to: directoryOwner), kind.make("d/n"), .give("d/n", to: fileOwner),
    ]
    // Moving a directory of another changes its `..`, which needs write permission for it too.
    let moves: Step.Expectation? = kind == .directory && caller != .root && caller != fileOwner && may ? .same : nil
    let takes: Step = kind == .directory ? .rmdir("d/n") : .unlink("d/n")
    return [
      Row("removed: \(name)", setUp + [takes.by(caller).fails(may ? nil : .notPermitted)]),
      Row(
        "renamed: \(name)", setUp + [.rename("d/n", to: "d/m").by(caller).fails(may ? nil : .notPermitted)]),
      Row(
        "moved away: \(name)",
        setUp + [
          moves == nil
            ? .rename("d/n", to: "m").by(caller).fails(may ? nil : .notPermitted)
            : .rename("d/n", to: "m").by(caller).compared
        ]),
      Row(
        "replaced: \(name)",
        setUp + [
          kind.make("mine"), .give("mine", to: caller),
          .rename("mine", to: "d/n").by(caller).fails(may ? nil : .notPermitted),
        ]),
      Row(
        "exchanged: \(name)",
        setUp + [
          kind.make("mine"), .give("mine", to: caller), .rename("mine", to: "d/n", flags: 2).by(caller).compared,
        ]),
    ]
  }
}
