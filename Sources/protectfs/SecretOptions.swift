import ArgumentParser
import KeyManagement
import MountDaemon

/// What a passcode is for, and so what the options are called that say where it comes from.
protocol PasscodeRole {
  static var name: String { get }
}

enum CurrentPasscode: PasscodeRole { static let name = "passcode" }
enum NewPasscode: PasscodeRole { static let name = "new passcode" }
/// The passcode of an exported keybag.
enum BackupPasscode: PasscodeRole { static let name = "backup passcode" }

/// The options that say where a passcode comes from. Without one it is asked for on the terminal.
struct PasscodeOptions<Role: PasscodeRole>: ParsableArguments {
  @Option(
    name: Self.option("file"),
    help: .init(
      "Read the \(Role.name) from a file; '-' is standard input. A newline at its end is left out.", valueName: "file"),
    completion: .file())
  var file: String?

  @Option(
    name: Self.option("fd"), parsing: .unconditional,
    help: .init("Read the \(Role.name) from an open file descriptor.", valueName: "number"))
  var descriptor: Int32?

  @Option(
    name: Self.option("command"),
    help: .init("Take what a shell command prints as the \(Role.name).", valueName: "command"))
  var command: String?

  private static func option(_ source: String) -> NameSpecification {
    .customLong("\(Role.name.replacing(" ", with: "-"))-\(source)")
  }

  /// Where the options say that it comes from.
  var given: SecretSource? { SecretSource(file: file, descriptor: descriptor, command: command) }

  var source: SecretSource {
    let name = Role.name.replacing(" ", with: "-")
    return given ?? .terminal(instead: "--\(name)-file, --\(name)-fd or --\(name)-command")
  }

  func validate() throws {
    guard [file != nil, descriptor != nil, command != nil].count(where: \.self) <= 1 else {
      throw ValidationError("A \(Role.name) comes from one place only.")
    }
  }
}

/// The options for what opens a store in a passcode's place.
struct OtherProtectorOptions: ParsableArguments {
  @Flag(
    help: """
      Ask for the recovery key that 'init' printed, instead of the passcode. Upper and lower case, dashes and blanks \
      make no difference.
      """)
  var recoveryKey = false

  @Option(
    help: .init("Read the recovery key from a file; '-' is standard input.", valueName: "file"), completion: .file())
  var recoveryKeyFile: String?

  @Option(help: .init("Open the store with a key file.", valueName: "file"), completion: .file())
  var keyFile: String?

  @Option(
    help: .init(
      "Open the store with a key file that systemd hands to the service: one in $CREDENTIALS_DIRECTORY.",
      valueName: "name"))
  var credential: String?

  func validate() throws {
    guard keyFile == nil || credential == nil else { throw ValidationError("A key file comes from one place only.") }
  }
}

/// The options that say what opens a store: a passcode, a recovery key or a key file.
struct OpeningOptions: ParsableArguments {
  @OptionGroup(title: "Passcode options") var passcode: PasscodeOptions<CurrentPasscode>
  @OptionGroup(title: "Passcode options") var files: SecretFileOptions
  @OptionGroup(title: "Options for other protectors") var others: OtherProtectorOptions

  /// Where a recovery key comes from; `nil` when something else is to be used. The same for a key file.
  var recoveryKey: SecretSource? {
    SecretSource(file: others.recoveryKeyFile) ?? (others.recoveryKey ? .terminal(instead: "--recovery-key-file") : nil)
  }
  private var keyFile: SecretSource? { others.keyFile.map { .file($0) } ?? others.credential.map { .credential($0) } }

  func validate() throws {
    guard [passcode.given, recoveryKey, keyFile].count(where: { $0 != nil }) <= 1 else {
      throw ValidationError("Give the passcode, the recovery key or a key file, one of them.")
    }
  }

  /// Whether any of them was given.
  var isGiven: Bool { passcode.given != nil || recoveryKey != nil || keyFile != nil }

  /// Reads whichever was asked for; by default a passcode from the terminal.
  ///
  /// - Parameter name: what a passcode is asked for as.
  func read(_ name: String = "Passcode") throws -> UnlockSecret {
    if let recoveryKey { return .recoveryKey(try recoveryKey.read("Recovery key", files)) }
    if let keyFile { return .keyFile(try keyFile.readKeyFile(files)) }
    return .passcode(try passcode.source.read(name, files))
  }

  /// Calls `body` with what opens the store. A passcode that is typed may be wrong twice.
  func attempt<Result: ~Copyable>(_ body: (borrowing UnlockSecret) throws -> Result) throws -> Result {
    var triesLeft = isGiven ? 1 : 3
    while true {
      let secret = try read()
      triesLeft -= 1
      do {
        return try body(secret)
      } catch {
        guard triesLeft > 0, let failure = CommandFailure(error), failure.status == .wrongSecret else { throw error }
        CommandFailure.report("\(failure.message); try again")
      }
    }
  }
}

extension StoreReader {
  /// Opens the keybag with what is asked for; a passcode that is typed may be wrong twice.
  func open(asking opening: OpeningOptions, deviceKeyFile: String?) throws -> OpenKeybag {
    try opening.attempt { try open(with: $0, deviceKeyFile: deviceKeyFile) }
  }
}
