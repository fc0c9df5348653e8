import ArgumentParser
import KeyManagement
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import StoreFormat
import SystemPackage
import TreeCopy

/// `protectfs restore`
struct RestoreCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "restore",
    abstract: "Bring files back from a copy.",
    discussion: """
      Copies what is missing, or can no longer be opened because its class key is no more, from a directory of \
      plaintext or from another store, of which the backing directory is given. The mount must be unlocked. A file \
      gets its name when the copy was read back and found to be the same. A file that is there with the same size and \
      modification time counts as restored, so that an interrupted run can be continued; one that is there and \
      different is reported and left alone. With --overwrite, contents are compared, and the source's are taken. Where a \
      directory would give a copy a class that protects less than that of its original, the copy gets that one; what \
      is there already keeps its class, which is reported where nobody chose it. The passcode and protector options are for the source.

      The exit status is 0 when all of the source is there, 15 when something could not be restored, was left out, was \
      left alone or protects less, and 22 when the command was interrupted.

      Examples:
        protectfs restore --from /media/backup/plain ~/private
        protectfs restore --from /media/backup/store ~/private
        protectfs restore --dry-run --from ~/old ~/private
      """)

  @Option(
    help: ArgumentHelp("A directory of plaintext, or the backing directory of another store.", valueName: "source"),
    completion: .directory)
  var from: String

  @Argument(help: ArgumentHelp("A directory on a mount.", valueName: "target"), completion: .directory)
  var target: String

  @Flag(
    help: "Replace files that are there and different, or cannot be read, which is tried; no directory is replaced.")
  var overwrite = false

  @Flag(help: "Report what would be done, and do nothing.")
  var dryRun = false

  @Flag(help: "Report in JSON, an object at the end.")
  var json = false

  @OptionGroup var opening: OpeningOptions

  @Option(
    name: .customLong("device-key"), help: ArgumentHelp("Use this device key file for the source.", valueName: "file"),
    completion: .file())
  var deviceKeyFile: String?

  func run() throws {
    let targetPath = try CanonicalPath.of(target)
    guard let mount = try MountedFileSystem.containing(targetPath) else {
      throw CommandFailure(.notMounted, "\(target.printable) is not on a protectfs mount")
    }
    let target = try Self.open(targetPath)
    let sourcePath = try CanonicalPath.of(from)
    let source = try Self.open(sourcePath)
    try requireSeparate(source, sourcePath, target, targetPath, on: mount)
    guard CopyOutcome.isUnlocked(mount) else {
      throw CommandFailure(.locked, "\(mount.mountPoint.printable) is locked; unlock it first")
    }
    let interruption = try Interruption()
    Process.raiseOpenFileLimit()
    if try Self.isStore(source, from) {
      try restore(fromStore: sourcePath, to: target, on: mount, interruption)
    } else {
      guard !opening.isGiven, deviceKeyFile == nil else {
        throw CommandFailure(.noStore, "\(from.printable) is no store, and nothing opens it")
      }
      try restore(from: source, to: target, on: mount, interruption)
    }
  }

  private func restore(
    fromStore backing: String, to target: SharedDescriptor, on mount: MountedFileSystem, _ interruption: Interruption
  ) throws {
    Memory.protectProcess()
    let directory = try Store.open(backing)
    let lock = try Store.lock(directory, path: backing, for: .mount(isReadOnly: true))
    try Store.requireAttributes(directory, path: backing)
    let opened = try StoreReader(backing, isBackup: true).open(asking: opening, deviceKeyFile: deviceKeyFile)
    // What comes next are bytes of whoever wrote the copy.
    Sandbox.enter { (part, error) in
      CommandFailure.report("restore keeps more rights than it needs (\(part): \(error))")
    }
    let source = try StoreSource(backing: directory, opened)
    try restore(from: source.root, to: target, on: mount, interruption)
    lock.hold()
  }

  private func restore(
    from source: any SourceItem, to target: SharedDescriptor, on mount: MountedFileSystem, _ interruption: Interruption
  ) throws {
    interruption.beginWork()
    let report = RestoreReport(to: mount, isJSON: json, isDryRun: dryRun)
    report.count(source) { !interruption.isWanted }
    let run = try RestoreRun(
      from: source, to: target, .init(overwrites: overwrite, isDryRun: dryRun), report
    ) { interruption.isWanted }
    run.restore(from: source)
    try report.finish()
  }

  /// Whether a directory is a store, perhaps one whose keybag is gone or may not be seen: its ciphertext is not
  /// restored as plaintext.
  private static func isStore(_ directory: SharedDescriptor, _ path: String) throws -> Bool {
    try naming(path.printable) { try Store.trace(in: directory.descriptor) != nil }
  }

  private static func open(_ path: String) throws -> SharedDescriptor {
    do throws(Errno) {
      return SharedDescriptor(try Descriptor.open(PathName(path), [.path, .directory]))
    } catch {
      throw CommandFailure(path.printable, error)
    }
  }

  private func requireSeparate(
    _ source: SharedDescriptor, _ sourcePath: String, _ target: SharedDescriptor, _ targetPath: String,
    on mount: MountedFileSystem
  ) throws {
    let (source, target, sourcePath, targetPath) = (source, target, sourcePath.printable, targetPath.printable)
    switch try TreeOverlap.of(source: source, target: target, backing: mount.backing) {
    case nil: return
    case .sourceIsInTarget: throw CommandFailure(.usage, "\(sourcePath) is in \(targetPath); give another source")
    case .targetIsInSource: throw CommandFailure(.usage, "\(targetPath) is in \(sourcePath); give another source")
    case .sourceIsBacking:
      throw CommandFailure(
        .usage, "\(sourcePath) is the store that is mounted at \(mount.mountPoint.printable); give a copy")
    }
  }
}
