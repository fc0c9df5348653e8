import ArgumentParser
import Cryptography
import KeyManagement
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// `protectfs login`
struct LoginCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "login",
    abstract: "Unlock a store when you log in.",
    subcommands: [
      LoginEnableCommand.self, LoginDisableCommand.self, LoginStatusCommand.self, LoginMountCommand.self,
      LoginWatchCommand.self,
    ])

  /// Refuses root, for whom nothing is unlocked at logins.
  static func requireUser() throws(CommandFailure) {
    guard Process.identity.user != 0 else {
      throw CommandFailure(
        .notPermitted, "this is for users other than root; the service protectfs@ mounts root's stores at boot")
    }
  }
}

/// `protectfs login enable`
struct LoginEnableCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "enable",
    abstract: "Have a store mounted and unlocked when you log in.",
    discussion: """
      Makes a store whose passcode is your login passcode, or takes one that is there, and turns it on for your logins: \
      the service protectfs-user@UID mounts it, and the passcode that you log in with unlocks it. The passcode is tried \
      first, with su(1), and what is there is mounted at once. \
      When your last session ends, everything is locked, and it is unmounted. 'passwd' changes the passcode of the store \
      too.

      Without directories, those that are set stay, with their mount options unless there are others; at first the \
      ciphertext is in ~/.local/share/protectfs/store, and ~/Protected is where you work. This \
      needs the package libpam-protectfs; 'protectfs login status' says whether all is in place.

      Examples:
        protectfs login enable
        protectfs login enable ~/.private ~/private
      """)

  @Argument(help: .init("The directory for the ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String?

  @Argument(
    help: .init("Where it is mounted; made if it does not exist.", valueName: "mount-point"), completion: .directory)
  var mountPoint: String?

  @Option(
    name: .customShort("o", allowingJoined: true),
    help: .init("Mount options, separated by commas, as for 'protectfs mount'.", valueName: "options"))
  var options: [String] = []

  @OptionGroup var contents: ContentsOptions

  @OptionGroup(title: "Passcode options") var passcode: PasscodeOptions<CurrentPasscode>
  @OptionGroup(title: "Passcode options") var files: SecretFileOptions

  @Option(
    help: .init(
      "Write the recovery key of a new store to a new file of mode 0600 instead of printing it.", valueName: "file"))
  var recoveryKeyFile: String?

  @Flag(help: "Take the passcode as that of your logins without trying it, and mount nothing now.")
  var noCheck = false

  func validate() throws {
    guard (backing == nil) == (mountPoint == nil) else {
      throw ValidationError("Give both directories, or none for those that are set.")
    }
    guard try !MountOptionList(options).isRemount else { throw ValidationError("There is nothing to remount.") }
  }

  func run() throws {
    try LoginCommand.requireUser()
    let home = Process.homeDirectory
    let former = backing == nil ? try LoginSettings.read() : try? LoginSettings.read()
    let kept = self.backing == nil ? former : nil
    let options = try serviceOptions(home, self.options.isEmpty ? kept.map { [$0.options] } ?? [] : self.options)
    let givenMountPoint = self.mountPoint ?? kept?.mountPoint ?? "\(home)/Protected"
    let givenBacking = self.backing ?? kept?.backing ?? "\(home)/.local/share/protectfs/store"
    let hasStore =
      try PathName(givenBacking).isThere
      && naming(givenBacking) { try Store.trace(in: Store.open(givenBacking)) } == .keybag
    if let kept, !hasStore {
      // A new one in its place would hide what is there when its disk comes back, and a backup would follow it.
      throw CommandFailure(
        .noStore,
        "the store of your logins is not at \(kept.backing.printable); where it was moved, or for a new store, give "
          + "both directories: protectfs login enable BACKING \(kept.mountPoint.shellQuoted)")
    }
    if hasStore, contents.authenticated, try !StoreInformation(givenBacking, deviceKeyFile: nil).authenticatesContents {
      throw CommandFailure(.alreadyAStore, "\(givenBacking.printable) is a store already, and not authenticated")
    }
    let secret = try readLoginPasscode {
      hasStore
        ? try passcode.source.read("Login passcode", files) : try passcode.source.readNew("Login passcode", files, nil)
    }
    for directory in [givenMountPoint, givenBacking] { try LoginSettings.makeDirectories(directory) }
    let backing = try CanonicalPath.of(givenBacking)
    let mountPoint = try checkedMountPoint(givenMountPoint, backing, options)
    if hasStore {
      try requireThatItOpens(backing, options, secret)
    } else {
      try makeStore(backing, options, secret)
    }
    let settings = LoginSettings(backing: backing, mountPoint: mountPoint, options: options.joined(separator: ","))
    try settings.write()
    if let former, former.mountPoint != mountPoint { try LoginSettings.setWritable(true, former.mountPoint) }
    try LoginSettings.setWritable(false, mountPoint, coversContents: settings.coversContents)
    print("From your next login on, \(backing.printable) is mounted at \(mountPoint.printable) and unlocked.")
    let parts = LoginParts.found
    guard parts.areComplete else {
      return CommandFailure.report("logins do not unlock yet; as root, \(parts.remedies.joined(separator: ", then "))")
    }
    if !noCheck { try mount(mountPoint, home, secret) }
  }

  /// Reads the passcode, and tries it as a login does; one that is typed may be wrong twice.
  private func readLoginPasscode(_ read: () throws -> SecretBytes) throws -> SecretBytes {
    var triesLeft = passcode.given == nil ? 3 : 1
    while true {
      let secret = try read()
      triesLeft -= 1
      do throws(CommandFailure) {
        if !noCheck { try LoginSession.open(with: secret) }
        return secret
      } catch {
        guard triesLeft > 0, error.status == .wrongSecret else {
          throw CommandFailure(error.status, "\(error.message); nothing was changed. --no-check takes it all the same")
        }
        CommandFailure.report("\(error.message); try again")
      }
    }
  }

  /// Has a login's session mount and unlock the store now, and says what to do next.
  private func mount(_ mountPoint: String, _ home: String, _ secret: borrowing SecretBytes) throws {
    var said = ""
    do throws(CommandFailure) { said = try LoginSession.open(with: secret) } catch { said = error.message }
    guard let mount = try MountedFileSystem.at(mountPoint), (try? LockState(of: mount)) == .unlocked else {
      let reason = said.isEmpty ? "" : " (\(said.printable))"
      return CommandFailure.report("it could not be mounted now\(reason); it is at your next login")
    }
    print("It is mounted and unlocked already.")
    let usual = ["Documents", "Pictures", "Mail", ".thunderbird", ".mozilla", ".gnupg"]
    // What is moved already is a link.
    let movable = usual.first { name in
      let directory = try? Descriptor.open(PathName("\(home)/\(name)"), [.path, .directory, .noFollow])
      return directory != nil && !CanonicalPath.lies(mountPoint, in: "\(home)/\(name)")
    }
    guard let moved = movable else { return }
    let (from, to) = ("\(home)/\(moved)".shellQuoted, "\(mountPoint)/\(moved)".shellQuoted)
    print(
      "To move a directory there, and have it in its place all the same:\n\n    mv \(from) \(to) && ln -s \(to) \(from)"
    )
  }

  /// The mount options for the service, which does not know where this session has its configuration.
  private func serviceOptions(_ home: String, _ options: [String]) throws -> [String] {
    let directory = DeviceKey.defaultDirectory().description
    guard directory != "\(home)/.config/protectfs", try MountOptionList(options).deviceKeyFile == nil else {
      return options
    }
    return options + ["device_key=\(directory)/device.key"]
  }

  /// The canonical mount point. One that is mounted is that of this store.
  private func checkedMountPoint(_ path: String, _ backing: String, _ options: [String]) throws -> String {
    let canonical = try CanonicalPath.of(path)
    if let mount = try MountedFileSystem.at(canonical), !mount.isDead, mount.backing == backing { return canonical }
    return try MountPoint.checked(path, backing: backing, coversContents: MountOptionList(options).coversContents)
  }

  private func makeStore(_ backing: String, _ options: [String], _ secret: borrowing SecretBytes) throws {
    let output = try recoveryKeyFile.map { try NewSecretFile(path: $0) }
    let deviceKeyFile = try MountOptionList(options).deviceKeyFile
    let (storeID, recoveryKey) = try Store.create(
      in: backing, defaultClass: .standard, authenticatesContents: contents.authenticated, passcode: secret,
      eraseAfter: nil, deviceKeyFile: deviceKeyFile)
    print("Made store \(storeID) in \(backing.printable).")
    try RecoveryKeyOutput.show(recoveryKey.text, output)
    try contents.warn(of: backing)
    if deviceKeyFile == nil { DeviceKeyPlace.warn(of: backing) }
  }

  private func requireThatItOpens(
    _ backing: String, _ options: [String], _ secret: borrowing SecretBytes
  ) throws {
    do {
      _ = try StoreReader(backing).open(
        with: .passcode(secret.copy()), deviceKeyFile: MountOptionList(options).deviceKeyFile)
    } catch KeyManagementError.wrongPasscode {
      let path = backing.printable
      throw CommandFailure(
        .wrongSecret,
        "\(path) has another passcode; 'protectfs passcode change \(path)' gives it that of your login")
    }
  }
}

/// `protectfs login disable`
struct LoginDisableCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "disable",
    abstract: "Have nothing mounted when you log in.",
    discussion: """
      Removes the settings of 'protectfs login enable'. The store stays, and so does its mount until you log out. Once \
      it is unmounted, 'chmod u+w' makes the mount point a usual directory.

      Example:
        protectfs login disable
      """)

  func run() throws {
    try LoginCommand.requireUser()
    let former = try? LoginSettings.read()
    guard try LoginSettings.remove() else { return print("Nothing was mounted at logins.") }
    if let former { try LoginSettings.setWritable(true, former.mountPoint) }
    let place = former?.backing.printable ?? "its place"
    print("From your next login on, nothing is mounted. The store stays in \(place).")
  }
}
