import ArgumentParser
import Glibc
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

/// `protectfs hooks`
struct HooksCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "hooks",
    abstract: "Run scripts when a mount is locked and unlocked.",
    discussion: """
      Runs the executable files in directories below the hook directory, in the order of their names, until the mount \
      goes: those in pre-lock.d when a lock is announced, which then waits for them for the time of the mount option \
      lock_delay at most; those in post-lock.d when keys have been wiped; those in post-unlock.d when an unlock has \
      brought them back, or has cancelled a lock. 'lock --now' leaves no time, so nothing in pre-lock.d is run.

      'protectfs mount' starts this by itself where there is a hook directory: /etc/protectfs/hooks for root, \
      ~/.config/protectfs/hooks for others. What another user owns, or others can write, is passed over.

      Scripts find PROTECTFS_EVENT (pre-lock, post-lock, post-unlock), PROTECTFS_MOUNT_POINT, PROTECTFS_CLASSES \
      (letters) and, before a lock, PROTECTFS_SECONDS in their environment. What they print is logged.

      Examples:
        protectfs hooks ~/private
        protectfs hooks --directory ~/hooks ~/private
      """)

  @Argument(help: ArgumentHelp("Where the store is mounted.", valueName: "mount-point"), completion: .directory)
  var mountPoint: String

  @Option(
    name: .customLong("directory"),
    help: ArgumentHelp("A hook directory, instead of the default one. May be given several times.", valueName: "dir"),
    completion: .directory)
  var directories: [String] = []

  @Option(help: ArgumentHelp("Log to a file, instead of standard error.", valueName: "file"), completion: .file())
  var logFile: String?

  /// Log to the journal or syslog.
  @Flag(help: .hidden)
  var systemLog = false

  /// `mount` has started this; standard input tells when it has mounted.
  @Flag(help: .hidden)
  var besideMount = false

  func run() throws {
    // Scripts get nothing that is open here.
    Process.closeDescriptors(except: -1)
    if besideMount, !Self.awaitMount() { return }
    let log = try logFile.map { DaemonLog.file(try MountLaunch.openLog($0)) } ?? (systemLog ? .system : .standardError)
    guard let mount = try MountedFileSystem.containing(mountPoint) else {
      throw CommandFailure(.notMounted, "\(mountPoint) is not on a protectfs mount")
    }
    let paths = directories.isEmpty ? [HookDirectory.defaultPath] : directories
    var hooks: [HookDirectory] = []
    for path in paths { hooks.append(try HookDirectory(path)) }
    // No mount is kept busy.
    guard unsafe chdir("/") == 0 else { throw CommandFailure(.failure, "/ cannot be entered") }
    Process.blockEndingSignals()
    try HookRunner(mount, hooks, log: log.logger(level: .info)).run(sawMount: besideMount)
  }

  /// Waits until `mount` has mounted; false where it did not come to that.
  private static func awaitMount() -> Bool {
    var byte: UInt8 = 0
    while true {
      let count = unsafe read(STDIN_FILENO, &byte, 1)
      if count < 0 && errno == EINTR { continue }
      let null = unsafe open("/dev/null", O_RDONLY)
      dup2(null, STDIN_FILENO)
      close(null)
      return count == 1
    }
  }
}
