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
      from the next one on, the service protectfs-user@UID mounts it, and the passcode that you log in with unlocks it. \
      When your last session ends, everything is locked, and it is unmounted. 'passwd' changes the passcode of the store \
      too.

      Without directories, the ciphertext is in ~/.local/share/protectfs/store, and ~/Protected is where you work. This \
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

  @OptionGroup(title: "Passcode options") var passcode: PasscodeOptions<CurrentPasscode>
  @OptionGroup(title: "Passcode options") var files: SecretFileOptions

  @Option(
    help: .init(
      "Write the recovery key of a new store to a new file of mode 0600 instead of printing it.", valueName: "file"))
  var recoveryKeyFile: String?

  func validate() throws {
    guard (backing == nil) == (mountPoint == nil) else {
      throw ValidationError("Give both directories, or none for ~/.local/share/protectfs/store and ~/Protected.")
    }
    guard try !MountOptionList(options).isRemount else { throw ValidationError("There is nothing to remount.") }
  }

  func run() throws {
    try LoginCommand.requireUser()
    let home = Process.homeDirectory
    let options = try serviceOptions(home)
    let givenMountPoint = self.mountPoint ?? "\(home)/Protected"
    let givenBacking = self.backing ?? "\(home)/.local/share/protectfs/store"
    for directory in [givenMountPoint, givenBacking] { try LoginSettings.makeDirectories(directory) }
    let backing = try CanonicalPath.of(givenBacking)
    let mountPoint = try checkedMountPoint(givenMountPoint, backing)
    if try naming(backing, { try Store.trace(in: Store.open(backing)) }) == .keybag {
      try requireThatItOpens(backing, options)
    } else {
      try makeStore(backing, options)
    }
    try LoginSettings(backing: backing, mountPoint: mountPoint, options: options.joined(separator: ",")).write()
    print("From your next login on, \(backing.printable) is mounted at \(mountPoint.printable) and unlocked.")
    let parts = LoginParts.found
    if !parts.areComplete {
      CommandFailure.report("logins do not unlock yet; as root, \(parts.remedies.joined(separator: ", then "))")
    }
  }

  /// The mount options for the service, which does not know where this session has its configuration.
  private func serviceOptions(_ home: String) throws -> [String] {
    let directory = DeviceKey.defaultDirectory().description
    guard directory != "\(home)/.config/protectfs", try MountOptionList(options).deviceKeyFile == nil else {
      return options
    }
    return options + ["device_key=\(directory)/device.key"]
  }

  /// The canonical mount point. One that is mounted is that of this store.
  private func checkedMountPoint(_ path: String, _ backing: String) throws -> String {
    let canonical = try CanonicalPath.of(path)
    if let mount = try MountedFileSystem.at(canonical), !mount.isDead, mount.backing == backing { return canonical }
    return try MountPoint.checked(path, backing: backing, coversContents: MountOptionList(options).coversContents)
  }

  private func makeStore(_ backing: String, _ options: [String]) throws {
    let output = try recoveryKeyFile.map { try NewSecretFile(path: $0) }
    let secret = try passcode.source.readNew("Login passcode", files)
    let (storeID, recoveryKey) = try Store.create(
      in: backing, defaultClass: .standard, passcode: secret, eraseAfter: nil,
      deviceKeyFile: MountOptionList(options).deviceKeyFile)
    print("Made store \(storeID) in \(backing.printable).")
    try RecoveryKeyOutput.show(recoveryKey.text, output)
  }

  private func requireThatItOpens(_ backing: String, _ options: [String]) throws {
    let secret = UnlockSecret.passcode(try passcode.source.read("Login passcode", files))
    do {
      _ = try StoreReader(backing).open(with: secret, deviceKeyFile: MountOptionList(options).deviceKeyFile)
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
      Removes the settings of 'protectfs login enable'. The store stays, and so does its mount until you log out.

      Example:
        protectfs login disable
      """)

  func run() throws {
    try LoginCommand.requireUser()
    let former = try? LoginSettings.read()
    guard try LoginSettings.remove() else { return print("Nothing was mounted at logins.") }
    let place = former?.backing.printable ?? "its place"
    print("From your next login on, nothing is mounted. The store stays in \(place).")
  }
}

/// `protectfs login status`
struct LoginStatusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Show what is mounted when you log in.",
    discussion: """
      Also shows whether it is mounted now, and whether the parts of libpam-protectfs are in place. The exit status is 1 \
      if one of them is missing while a store is on.

      Example:
        protectfs login status --json
      """)

  @Flag(help: "Report in JSON.")
  var json = false

  private struct Report: Encodable {
    var settings: LoginSettings?
    var isMounted: Bool
    var parts: LoginParts
  }

  func run() throws {
    try LoginCommand.requireUser()
    let settings = try LoginSettings.read()
    let mount = try settings.flatMap { try MountedFileSystem.at($0.mountPoint) }
    let parts = LoginParts.found
    if json {
      try JSONOutput.show(Report(settings: settings, isMounted: mount != nil, parts: parts))
    } else if let settings {
      print("On: \(settings.backing.printable) at \(settings.mountPoint.printable)")
      if !settings.options.isEmpty { print("  options  \(settings.options.printable)") }
      print("  mounted  \(mount == nil ? "no" : "yes")")
      print("  module   \(parts.module ?? "missing: install libpam-protectfs")")
      print("  in PAM   \(parts.isInStack ? "yes" : "no: 'pam-auth-update --enable protectfs' as root")")
      print("  service  \(parts.unit ?? "missing: install protectfs")")
    } else {
      print("Off: nothing is mounted when you log in; 'protectfs login enable' turns it on.")
    }
    if settings != nil, !parts.areComplete { throw ExitCode(ExitStatus.failure.rawValue) }
  }
}

/// What has to be installed so that logins unlock.
struct LoginParts: Encodable {
  /// The path of the module.
  var module: String?
  /// The path of the service.
  var unit: String?
  /// Whether PAM's common configuration names the module.
  var isInStack: Bool

  /// What root has to do, in this order.
  var remedies: [String] {
    [
      unit == nil ? "install protectfs" : nil, module == nil ? "install libpam-protectfs" : nil,
      isInStack ? nil : "run 'pam-auth-update --enable protectfs'",
    ].compactMap(\.self)
  }

  var areComplete: Bool { remedies.isEmpty }

  /// What is there.
  static var found: LoginParts {
    func first(_ paths: [String]) -> String? {
      paths.first { (try? Descriptor.open(PathName($0), [.path])) != nil }
    }
    let libraries = ["/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib", "/usr/lib"]
    let units = ["/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"].map { "\($0)/systemd/system" }
    let stack = try? Descriptor.open("/etc/pam.d/common-session", [.readOnly]).readAll(limit: 65_536)
    let lines = String(decoding: stack ?? [], as: UTF8.self).split(separator: "\n")
    return LoginParts(
      module: first(libraries.map { "\($0)/security/pam_protectfs.so" }),
      unit: first(units.map { "\($0)/protectfs-user@.service" }),
      isInStack: lines.contains { !$0.hasPrefix("#") && $0.contains("pam_protectfs.so") })
  }
}
