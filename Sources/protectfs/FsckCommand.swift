import ArgumentParser
import Cryptography
import KeyManagement
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import StoreCheck
import StoreFormat

/// `protectfs fsck`
struct FsckCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "fsck",
    abstract: "Check a store that is not mounted, and repair it.",
    discussion: """
      Looks at both copies of the keybag, and at every file, directory and name in a store: its record, length, \
      symbolic link and extended attributes. The device key is enough for that. With the passcode or the recovery key, \
      it also tries the key of every file; with --contents, it reads the contents too: in an authenticated store, that \
      finds pages that were changed. A store whose mounts are all read-only is checked too, but not repaired.

      A repair deletes nothing but leftovers: what has no place in the tree is moved to .protectfs/lost+found. Files \
      under a class key that no keybag here has are reported, and stay: the keybag that has the key opens them.

      Exit status, the sum of: 0 no errors, 1 errors repaired, 4 errors left, 8 could not be checked, 16 wrong usage;
      30 alone: the store was lost to another host.

      Examples:
        protectfs fsck ~/.private
        protectfs fsck --unlock --repair ~/.private
      """)

  @Argument(help: ArgumentHelp("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @Flag(
    help: "Remove leftovers, restore a copy of the keybag from the other, and move damaged items to lost+found.")
  var repair = false

  @Flag(help: "Report in JSON.")
  var json = false

  @Flag(help: "Ask for the passcode, and check the keys of files too; implied by the options that give a protector.")
  var unlock = false

  @Flag(help: "Read the contents of all files too, and say which cannot be read; implies --unlock.")
  var contents = false

  @Flag(
    help: """
      With --repair, in an authenticated store: take files as long as they are, also where that is not how long they \
      were when they were closed. A copy of a store that was made while it was written may have such files; but whoever \
      cut a file is believed too. Files of class B, whose keys anybody can make, are left. Implies --unlock.
      """)
  var acceptLengths = false

  @OptionGroup var opening: OpeningOptions

  @Option(
    name: .customLong("device-key"), help: ArgumentHelp("Use this device key file.", valueName: "file"),
    completion: .file())
  var deviceKeyFile: String?

  func validate() throws {
    if acceptLengths, !repair { throw ValidationError("--accept-lengths changes the store: give --repair too.") }
  }

  private var options: StoreCheck.Options {
    var options: StoreCheck.Options = []
    if contents { options.insert(.contents) }
    if repair { options.insert(.repairs) }
    if acceptLengths { options.insert(.acceptsLengths) }
    return options
  }

  private var wantsKeys: Bool { unlock || contents || acceptLengths || opening.isGiven }

  func run() throws {
    let report: any FsckReport = json ? FsckObject(of: backing) : FsckLines(of: backing)
    var status: CheckStatus
    do {
      let summary = try check(report)
      status = CheckStatus(summary)
      report.finish(summary)
    } catch {
      report.finish(nil)
      CommandFailure.report(CommandFailure(error)?.message ?? "\(error)")
      status = .notChecked
    }
    throw ExitCode(status.rawValue)
  }

  private func check(_ report: any FsckReport) throws -> CheckSummary {
    let path = try CanonicalPath.ofBacking(backing)
    do {
      return try check(path, report)
    } catch let error as StoreError where error == .noStore(path: path) {
      guard let mount = try MountedFileSystem.containing(path), let failure = CommandFailure(error) else { throw error }
      throw CommandFailure(
        failure.status,
        "\(failure.message); unmount and check that: protectfs unmount \(mount.mountPoint.shellQuoted) && "
          + "protectfs fsck \(mount.backing.shellQuoted)")
    }
  }

  private func check(_ path: String, _ report: any FsckReport) throws -> CheckSummary {
    let directory = try Store.open(path)
    let lock = try lock(directory, path)
    defer { lock.hold() }
    let copies: KeybagCopies
    do throws(KeyManagementError) {
      if repair { try KeybagFile(backing: directory).finishRestoration() }
      copies = try KeybagCopies(backing: directory)
    } catch .keybagMissing {
      throw StoreError.noStore(path: path)
    }
    return wantsKeys
      ? try checkUnlocking(directory, copies, report) : try check(directory, copies, report)
  }

  private func check(
    _ directory: borrowing Descriptor, _ copies: KeybagCopies, _ report: any FsckReport
  ) throws -> CheckSummary {
    let (keybag, storeKey) = try usable(copies, in: directory) { (bytes) throws(KeyManagementError) in
      try DeviceKey.load(forKeybag: bytes, file: deviceKeyFile)
    }
    return try StoreCheck.run(
      directory, copies: copies, keybag: keybag, deviceKey: storeKey.key, options: options, observer: report)
  }

  private func checkUnlocking(
    _ directory: borrowing Descriptor, _ copies: KeybagCopies, _ report: any FsckReport
  ) throws -> CheckSummary {
    let secret = OpeningSecret(try opening.read())
    let (keybag, storeKey) = try usable(copies, in: directory) { (bytes) throws(KeyManagementError) in
      try secret.value.deviceKey(forKeybag: bytes, file: deviceKeyFile)
    }
    return try StoreCheck.run(
      directory, copies: copies, keybag: keybag, deviceKey: storeKey.key,
      unlock: { (file, keybag, deviceKey) throws(KeyManagementError) in
        try file.open(keybag, with: secret.value, deviceKey: deviceKey).heldKeys()
      }, options: options, observer: report)
  }

  /// A good keybag, and the store's device key.
  private func usable(
    _ copies: KeybagCopies, in directory: borrowing Descriptor,
    _ deviceKey: ([UInt8]) throws(KeyManagementError) -> VolumeDeviceKey
  ) throws(KeyManagementError) -> (Keybag, StoreKey) {
    var opened: [(keybag: Keybag, key: StoreKey)] = []
    let keybag = try copies.firstUsable(in: directory) { (bytes) throws(KeyManagementError) in
      let key = StoreKey(try deviceKey(bytes))
      let keybag = try Keybag(parsing: bytes, deviceKey: key.key)
      opened.append((keybag, key))
      return keybag
    }
    guard let found = opened.first(where: { $0.keybag == keybag }) else { throw .keybagMissing }
    return (keybag, found.key)
  }

  /// A repair has the store alone; a check shares it with mounts that only read.
  private func lock(_ directory: borrowing Descriptor, _ path: String) throws -> StoreLock {
    do throws(StoreError) {
      return try Store.lock(directory, path: path, for: repair ? .repair : .check)
    } catch {
      guard case .inUse = error else { throw error }
      let mount = MountedFileSystem.writing(path) ?? MountedFileSystem.mounts(of: path).first
      let mountPoint = mount?.mountPoint ?? "MOUNTPOINT"
      throw CommandFailure(
        .alreadyMounted, "\(path) is in use; unmount it first: protectfs unmount \(mountPoint)")
    }
  }

  /// Carries a secret into closures.
  private final class OpeningSecret {
    let value: UnlockSecret

    init(_ value: consuming UnlockSecret) {
      self.value = value
    }
  }

  /// Carries the key, which cannot be copied, out of a closure.
  private final class StoreKey {
    let key: VolumeDeviceKey

    init(_ key: consuming VolumeDeviceKey) {
      self.key = key
    }
  }
}

/// How a check ends, as fsck(8) has it: a sum.
struct CheckStatus: OptionSet {
  let rawValue: Int32

  static let repaired = CheckStatus(rawValue: 1)
  static let errorsLeft = CheckStatus(rawValue: 4)
  /// What was asked for could not be done.
  static let notChecked = CheckStatus(rawValue: 8)
  static let usage = CheckStatus(rawValue: 16)

  init(rawValue: Int32) {
    self.rawValue = rawValue
  }

  init(_ summary: CheckSummary) {
    self = []
    if summary.errorsRepaired > 0 { insert(.repaired) }
    if summary.errors > summary.errorsRepaired { insert(.errorsLeft) }
  }
}
