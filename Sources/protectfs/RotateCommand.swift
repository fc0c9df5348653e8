import ArgumentParser
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import TreeCopy

/// `protectfs rotate`
struct RotateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "rotate",
    abstract: "Give a class or files a new key.",
    discussion: """
      With --class, wraps the keys of all files of the class under a new class key, and then destroys the old one, so \
      that old records and old keybags open nothing. Contents are not rewritten. The mount can be used meanwhile, and \
      must stay unlocked. A rotation that is interrupted leaves a store that opens as before; run again, it goes on. \
      Where files cannot be changed, both class keys are kept, the mount's log names the files, and the exit status is \
      15. A backup of the backing directory that is made meanwhile has files under either key, but maybe a keybag with \
      one of the two only: make it again afterwards.

      With --data, gives files new keys of their own and encrypts their contents under them, so that a file key that \
      somebody has learnt opens nothing any more: in place, and while the files are in use. The command waits for \
      that; what is left when it does not wait, or when a lock, a restart or a full disk interrupts it, goes on in the \
      background after the next unlock. What a disk or a copying file system keeps of the old contents is out of \
      reach.

      Examples:
        protectfs rotate --class complete ~/private
        protectfs rotate --class C --json ~/private
        protectfs rotate --data ~/private/letters
      """)

  @Option(
    name: .customLong("class"), help: .init("A name, a letter or an NSFileProtection constant.", valueName: "class"))
  var protectionClass: ProtectionClass?

  @Flag(help: "Give the files of these paths, and all below them, new keys of their own.")
  var data = false

  @Argument(
    help: .init("Where the store is mounted; with --data files or directories there.", valueName: "path"),
    completion: .file())
  var paths: [String]

  @OptionGroup var opening: OpeningOptions

  @Flag(help: "With --data: do not wait until the files are encrypted under their new keys.")
  var noWait = false

  @Flag(help: "Report in JSON, an object a line.")
  var json = false

  func validate() throws {
    guard data != (protectionClass != nil) else { throw ValidationError("Give --class or --data, one of them.") }
    guard data || paths.count == 1 else { throw ValidationError("A class is rotated on one mount.") }
    guard data || !noWait else { throw ValidationError("--no-wait goes with --data.") }
    guard !data || !opening.isGiven else { throw ValidationError("With --data, no passcode or key is needed.") }
  }

  func run() throws {
    if let protectionClass {
      var daemon = try DaemonConnection(mountPoint: paths[0])
      _ = try daemon.status()
      try ClassRotation(fileClass: protectionClass, mountPoint: paths[0], isJSON: json).run(with: opening.read())
    } else {
      try rotateData()
    }
  }

  private func rotateData() throws {
    let failures = FailureCount()
    let files = DrawnKeys()
    let progress = TreeProgress("looked at", of: paths)
    for path in paths {
      failures.attempt(path) { () throws(Errno) in
        guard try MountedFileSystem.find(containing: path) != nil else { throw .notSupported }
        try files.draw(PathName(path))
      }
      DirectoryTree.visit(path, threads: 2, report: progress.report(to: failures)) { (item, _) throws(Errno) in
        try files.draw(item)
      }
    }
    progress.end()
    var ending: CommandFailure?
    if !noWait {
      do { try RekeyWait().finish(paths) } catch {
        ending = CommandFailure(error) ?? CommandFailure(.failure, "\(error)")
      }
    }
    if json {
      try JSONOutput.showLine(["rotated": files.count, "failed": failures.failed])
    } else {
      print("\(files.count.files) got a new key.")
    }
    if let ending { throw ending }
    try failures.finish(of: "given a new key")
  }
}

/// Has the mount draw new keys for files, and counts them; each once, under whichever of its names.
private final class DrawnKeys: Sendable {
  private struct State {
    var count = 0
    var linked: Set<FileIdentity> = []
  }

  private let state = RankedMutex(.commandState, State())

  var count: Int { state.withLock { $0.count } }

  /// Directories have no key.
  func draw(_ item: PathName) throws(Errno) {
    let status = try Descriptor.open(item, [.path]).status()
    guard status.type == .regular else { return }
    if status.links > 1 {
      guard state.withLock({ $0.linked.insert(status.identity).inserted }) else { return }
    }
    try item.setAttribute(PathName(ProtectionClass.rekeyAttributeName), to: Array("1".utf8))
    state.withLock { $0.count += 1 }
  }
}
