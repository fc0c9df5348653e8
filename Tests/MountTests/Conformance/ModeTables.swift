import Glibc
import LinuxIO
import SystemPackage
import Testing

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

/// chmod: every kind of file, every identity, every special bit.
enum ModeTables {
  static let identities: [Identity] = [.root, .owner, .member, .companion, .stranger]

  static var chmod: [Row] {
    var rows: [Row] = []
    for kind in Kind.withMode {
      for identity in identities {
        let allowed = identity == .root || identity == .owner
        for mode: Int64 in [0o000, 0o111, 0o644, 0o1755, 0o2755, 0o2644, 0o4755, 0o6711, 0o7777] {
          rows.append(
            Row("chmod of a \(kind) to \(String(mode, radix: 8)) by \(identity)", [
              kind.make("n"), .give("n", to: .owner),
              .chmod("n", mode).by(identity).fails(allowed ? nil : .notPermitted),
              .chmod("n", 0o600).by(identity).fails(allowed ? nil : .notPermitted),
            ]))
        }
      }
    }
    return rows
  }
}
