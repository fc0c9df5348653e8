import ArgumentParser
import MountDaemon
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// `protectfs init`
struct InitCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "init",
    abstract: "Make a store in an empty directory.",
    discussion: """
      Makes the keys of a new store and prints its recovery key. The directory is made if it does not exist. The \
      recovery key opens the store without the passcode and without the device key. It is shown once and stored \
      nowhere.

      Besides the passcode, a store needs the device key: a file outside of the store that binds the store to this \
      machine. It is made on first use, as ~/.config/protectfs/device.key, or /etc/protectfs/device.key for root.

      Examples:
        protectfs init ~/.private
        protectfs init --default-class complete --passcode-file secret.txt /srv/store
      """)

  @Argument(help: .init("The directory for the ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @Option(
    help: .init(
      "The class of what is made in the root of the mount; not 'none'. A name, a letter or an NSFileProtection constant.",
      valueName: "class"),
    completion: .list(DefaultClass.allValueStrings))
  var defaultClass = DefaultClass(protectionClass: .standard)

  @OptionGroup var contents: ContentsOptions

  @OptionGroup(title: "Passcode options") var passcode: PasscodeOptions<CurrentPasscode>
  @OptionGroup(title: "Passcode options") var files: SecretFileOptions
  @OptionGroup(title: "Passcode options") var new: NewPasscodeOptions

  @Option(
    name: .customLong("device-key"),
    help: .init(
      "Use this device key file instead of the usual one; it is made if it does not exist.", valueName: "file"),
    completion: .file())
  var deviceKeyFile: String?

  @Option(help: .init("Write the recovery key to a new file of mode 0600 instead of printing it.", valueName: "file"))
  var recoveryKeyFile: String?

  // A negative number is no option.
  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      """
      Erase the store after this many wrong passcodes in a row, 4 to 100; iOS has 10. Each unlock attempt counts, \
      wherever it is made, and another mount of the store loses its keys too. Without this option wrong passcodes are \
      delayed only.
      """,
      valueName: "count"))
  var eraseAfter: Int?

  func validate() throws {
    guard deviceKeyFile?.hasSuffix(".host") != true else {
      throw ValidationError("A file whose name ends in '.host' is a host's, which 'protectfs host add' makes.")
    }
    if let eraseAfter, UInt8(exactly: eraseAfter).map(KeybagRecord.eraseAfterRange.contains) != true {
      throw ValidationError("Give --erase-after a number from 4 to 100.")
    }
    guard defaultClass.protectionClass != .none else {
      throw ValidationError("The default class cannot be 'none': files would be open to anyone with this machine.")
    }
  }

  func run() throws {
    try naming(backing) {
      do { try Process.makeDirectory(backing, mode: 0o700) } catch Errno.fileExists {}
    }
    let path = try CanonicalPath.of(backing)
    // Before a passcode is asked for.
    guard try naming(backing, { try Store.trace(in: Store.open(path)) }) != .keybag else {
      throw StoreError.alreadyAStore(path: path)
    }
    let output = try recoveryKeyFile.map { try NewSecretFile(path: $0) }
    let secret = try passcode.source.readNew("New passcode", files, new)
    let protectionClass = defaultClass.protectionClass
    let (storeID, recoveryKey) = try Store.create(
      in: path, defaultClass: protectionClass, authenticatesContents: contents.authenticated, passcode: secret,
      eraseAfter: eraseAfter.map(UInt8.init), deviceKeyFile: deviceKeyFile)
    let named = "\(protectionClass.name) (\(protectionClass.letter))"
    print("Made store \(storeID) in \(path); new files are of class \(named).")
    try RecoveryKeyOutput.show(recoveryKey.text, output)
    try contents.warn(of: path)
    if deviceKeyFile == nil { DeviceKeyPlace.warn(of: path) }
    print("\nMount it with:\n\n    \(try FirstMount.command(backing: path, deviceKeyFile: deviceKeyFile))")
  }
}

/// A class that is the default of an option. ArgumentParser shows the raw value of an enumeration as the default,
/// whatever its description; this has none.
struct DefaultClass: ExpressibleByArgument {
  let protectionClass: ProtectionClass

  init(protectionClass: ProtectionClass) { self.protectionClass = protectionClass }

  init?(argument: String) {
    guard let protectionClass = ProtectionClass(argument: argument) else { return nil }
    self.protectionClass = protectionClass
  }

  var defaultValueDescription: String { protectionClass.name }

  /// All names but that of class D, which cannot be the default.
  static var allValueStrings: [String] { ProtectionClass.allCases.filter { $0 != .none }.map(\.name) }
}

extension ProtectionClass: ExpressibleByArgument {
  /// The class of a name, a letter or a Foundation constant.
  public init?(argument: String) {
    self.init(name: argument)
  }

  /// The names, for help and completion.
  public static var allValueStrings: [String] { allCases.map(\.name) }

  /// None: the names say it.
  public static var allValueDescriptions: [String: String] { [:] }
}
