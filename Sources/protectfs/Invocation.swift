import ArgumentParser
import ProtectfsIO

/// How the program was called: as `protectfs`, or as a helper of mount(8).
enum Invocation {
  /// Runs the command of these arguments, the program's name first, and ends the process.
  static func run(_ arguments: [String]) -> Never {
    let program = arguments.first?.split(separator: "/").last.map(String.init) ?? "protectfs"
    var rest = Array(arguments.dropFirst())
    if program.hasPrefix("mount.") {
      rest = ["mount"] + withoutHelperFlags(rest)
    } else if let first = rest.first, first.hasPrefix("/") {
      // mount.fuse(8) leaves the word out: it knows a file system by its program alone.
      rest = ["mount"] + rest
    }
    // Before the arguments are read, since it begins anew.
    if rest.first == "mount" || rest.starts(with: ["login", "mount"]) { Process.bindSymbols() }
    do {
      var command = try ProtectFS.parseAsRoot(rest)
      try command.run()
    } catch let failure as CommandFailure {
      failure.reportAndExit()
    } catch {
      guard let failure = CommandFailure(error) else {
        guard ProtectFS.exitCode(for: error) == .validationFailure else { ProtectFS.exit(withError: error) }
        StandardStream.writeError(UsageHint.message(ProtectFS.fullMessage(for: error), for: rest) + "\n")
        // fsck(8) has a number of its own for wrong usage.
        let status = rest.first == "fsck" ? CheckStatus.usage.rawValue : ExitStatus.usage.rawValue
        ProtectFS.exit(withError: ExitCode(status))
      }
      failure.reportAndExit()
    }
    ProtectFS.exit(withError: ExitCode.success)
  }

  /// Leaves out what mount(8) passes to every helper: `-s` tolerate unknown options, `-n` no mtab, `-v` say more, `-N`
  /// a namespace, `-t` the type. With `-f` nothing is to be mounted.
  private static func withoutHelperFlags(_ arguments: [String]) -> [String] {
    var kept: [String] = []
    var rest = arguments[...]
    while let argument = rest.popFirst() {
      switch argument {
      case "-s", "-n", "-v": continue
      case "-f": ProtectFS.exit(withError: ExitCode.success)
      case "-N", "-t": _ = rest.popFirst()
      default: kept.append(argument)
      }
    }
    return kept
  }
}
