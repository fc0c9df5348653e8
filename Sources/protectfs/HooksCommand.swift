import ArgumentParser
import Hooks
import KeyManagement
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// `protectfs hooks`
struct HooksCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "hooks",
    abstract: "Run scripts when a mount is locked and unlocked.",
    discussion: """
      Runs the executable files in these directories of the hook directory, in the order of their names, until the \
      mount goes or SIGTERM comes:

        pre-lock.d     when a lock is announced. The lock waits for them, for the time
                       of the mount option lock_delay at most; 'lock --now' does not,
                       and runs nothing
        post-lock.d    when keys have been wiped
        post-unlock.d  when an unlock has brought keys back, or has cancelled a lock

      'protectfs mount' starts this by itself where there is a hook directory: /etc/protectfs/hooks for root, \
      ~/.config/protectfs/hooks for others. What another user owns, or others can write, is passed over with a \
      warning.

      The environment of the scripts has PROTECTFS_EVENT (pre-lock, post-lock, post-unlock), PROTECTFS_MOUNT_POINT, \
      PROTECTFS_CLASSES (letters, with blanks between them) and, before a lock, PROTECTFS_SECONDS: how many are left \
      until it. What they print is logged.

      Examples:
        protectfs hooks ~/private
        protectfs hooks --directory ~/hooks ~/private
        protectfs hooks --json ~/private 2>&1 | jq .message
      """)

  @Argument(help: .init("Where the store is mounted.", valueName: "mount-point"), completion: .mountPoint)
  var mountPoint: String

  @Option(
    name: .customLong("directory"),
    help: .init("A hook directory, instead of the default one. May be given several times.", valueName: "dir"),
    completion: .directory)
  var directories: [String] = []

  @Option(help: .init("Log to a file, instead of standard error.", valueName: "file"), completion: .file())
  var logFile: String?

  @Flag(help: "Log in JSON, one object a line, each script that has run included.")
  var json = false

  /// Log to the journal or syslog.
  @Flag(help: .hidden)
  var systemLog = false

  /// `mount` has started this; standard input tells when it has mounted.
  @Flag(help: .hidden)
  var besideMount = false

  func run() throws {
    // Scripts get nothing that is open here.
    Process.closeDescriptors(except: -1)
    if besideMount, !MountHooks.awaitMount() { return }
    let log = try logFile.map { DaemonLog.file(try MountLaunch.openLog($0)) } ?? (systemLog ? .system : .standardError)
    guard let mount = try MountedFileSystem.containing(mountPoint) else {
      throw CommandFailure(.notMounted, "\(mountPoint) is not on a protectfs mount")
    }
    let paths = directories.isEmpty ? [HookDirectory.defaultPath] : directories
    let hooks = try paths.map { try HookDirectory.of($0) }
    try Process.enterRoot()
    Process.blockEndingSignals()
    try Thread.require(HookRunner.threadCount)
    try HookRunner(mount, hooks, log: log.logger(level: json ? .debug : .info, isJSON: json)).run(sawMount: besideMount)
  }
}

extension HookDirectory {
  /// `/etc/protectfs/hooks` for root; for others `$XDG_CONFIG_HOME/protectfs/hooks`, by default below `~/.config`.
  static var defaultPath: String { "\(DeviceKey.defaultDirectory())/hooks" }

  /// The directory of a path.
  static func of(_ path: String) throws(CommandFailure) -> HookDirectory {
    do throws(Errno) {
      return try HookDirectory(path)
    } catch .notDirectory {
      throw CommandFailure(.failure, "\(path) is not a directory, so there are no hooks in it")
    } catch {
      throw CommandFailure(path, error)
    }
  }
}
