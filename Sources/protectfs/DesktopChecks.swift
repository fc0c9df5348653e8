import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// What locks and unlocks with a user's session, or with the machine's sleep, and what programs keep of files
/// elsewhere.
enum DesktopChecks {
  static func findings() -> [Diagnosis] {
    if Process.identity.user == 0 { return [sleep] }
    return [login, agent] + copies
  }

  private static var login: Diagnosis {
    let settings: LoginSettings?
    do { settings = try LoginSettings.read() } catch {
      return .fault("login", CommandFailure(error)?.message ?? "\(error)", LoginSettings.anew)
    }
    guard let settings else {
      return .hint("login", "no store is unlocked at logins", "protectfs login enable")
    }
    if let problem = settings.problem { return .fault("login", problem, settings.remedy) }
    let remedies = LoginParts.found.remedies
    return remedies.isEmpty
      ? .good("login", "a store is unlocked with the login passcode")
      : .fault(
        "login", "a store is on, and logins do not unlock it", "as root, \(remedies.joined(separator: ", then "))")
  }

  private static var agent: Diagnosis {
    runs("session")
      ? .good("screen lock", "a session agent locks mounts at screen lock and before sleep")
      : .fault(
        "screen lock", "no session agent runs, so mounts stay unlocked",
        "systemctl --user enable --now protectfs-session")
  }

  private static var sleep: Diagnosis {
    PathName("/etc/systemd/system/sleep.target.wants/protectfs-sleep.service").isThere
      ? .good("sleep", "mounts are locked before the machine sleeps")
      : .hint("sleep", "root's mounts stay unlocked while the machine sleeps", "systemctl enable protectfs-sleep")
  }

  /// What desktops keep of the contents of files that they see.
  private static var copies: [Diagnosis] {
    [
      ("thumbnails", "thumbnails"), ("search index", "tracker3"), ("search index", "tracker"),
      ("search index", "baloo"),
    ]
    .compactMap { subject, name in
      let path = "\(Process.homeDirectory)/\(name == "baloo" ? ".local/share" : ".cache")/\(name)"
      guard PathName(path).isThere else { return nil }
      // A link that leads to a mount keeps them there.
      let isProtected = (try? MountedFileSystem.containing(path)) != nil
      return isProtected
        ? .good(subject, "\(path.printable) is on a mount")
        : .hint(
          subject, "\(path.printable) has parts of files that programs have seen, not encrypted", "see DESKTOP.md")
    }
  }

  /// Whether this user has a process of this command.
  private static func runs(_ subcommand: String) -> Bool {
    Process.all.contains { process in
      guard let file = try? Descriptor.open(PathName("/proc/\(process)/cmdline"), [.readOnly]),
        (try? file.status().user) == Process.identity.user, let bytes = try? file.readToEnd()
      else { return false }
      let words = String(decoding: bytes, as: UTF8.self).split(separator: "\0")
      return words.count > 1 && words[0].split(separator: "/").last == "protectfs" && words[1] == subcommand
    }
  }
}
