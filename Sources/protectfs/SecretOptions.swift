import ArgumentParser
import Cryptography
import KeyManagement
import ProtectfsClient

/// The options that say where a passcode comes from. Without one it is asked for on the terminal.
struct PasscodeOptions: ParsableArguments {
  @Option(
    name: .customLong("passcode-file"),
    help: ArgumentHelp(
      "Read the passcode from a file; '-' is standard input. A newline at its end is left out.", valueName: "file"),
    completion: .file())
  var file: String?

  @Option(
    name: .customLong("passcode-fd"),
    help: ArgumentHelp("Read the passcode from an open file descriptor.", valueName: "number"))
  var descriptor: Int32?

  @Option(
    name: .customLong("passcode-command"),
    help: ArgumentHelp("Take what a shell command prints as the passcode.", valueName: "command"))
  var command: String?

  var source: SecretSource { SecretSource(file: file, descriptor: descriptor, command: command) }

  /// Whether one of the options was given.
  var isGiven: Bool { file != nil || descriptor != nil || command != nil }

  func validate() throws {
    let count = [file != nil, descriptor != nil, command != nil].count { $0 }
    guard count <= 1 else { throw ValidationError("A passcode comes from one place only.") }
  }
}

/// The options for a recovery key in a passcode's place.
struct RecoveryKeyOptions: ParsableArguments {
  @Flag(
    name: .customLong("recovery-key"),
    help: """
      Ask for the recovery key that 'init' printed, instead of the passcode. Upper and lower case, dashes and blanks \
      make no difference.
      """)
  var isWanted = false

  @Option(
    name: .customLong("recovery-key-file"),
    help: ArgumentHelp("Read the recovery key from a file; '-' is standard input.", valueName: "file"),
    completion: .file())
  var file: String?

  /// Where it comes from; `nil` when something else is to be used.
  var source: SecretSource? {
    if let file { return .file(file) }
    return isWanted ? .terminal : nil
  }
}

/// The options for a key file in a passcode's place.
struct KeyFileOptions: ParsableArguments {
  @Option(
    name: .customLong("key-file"), help: ArgumentHelp("Open the store with a key file.", valueName: "file"),
    completion: .file())
  var file: String?

  @Option(
    help: ArgumentHelp(
      "Open the store with a key file that systemd hands to the service: one in $CREDENTIALS_DIRECTORY.",
      valueName: "name"))
  var credential: String?

  /// Where it comes from; `nil` when something else is to be used.
  var source: KeyFileSource? {
    if let file { return .file(file) }
    return credential.map { .credential($0) }
  }

  func validate() throws {
    guard file == nil || credential == nil else { throw ValidationError("A key file comes from one place only.") }
  }
}

/// The options that say what opens a store: a passcode, a recovery key or a key file.
struct OpeningOptions: ParsableArguments {
  @OptionGroup(title: "Passcode options") var passcode: PasscodeOptions

  @OptionGroup(title: "Passcode options") var files: SecretFileOptions

  @OptionGroup(title: "Options for other protectors") var recoveryKey: RecoveryKeyOptions

  @OptionGroup(title: "Options for other protectors") var keyFile: KeyFileOptions

  func validate() throws {
    let count = [passcode.isGiven, recoveryKey.source != nil, keyFile.source != nil].count { $0 }
    guard count <= 1 else { throw ValidationError("Give the passcode, the recovery key or a key file, one of them.") }
  }

  /// Whether any of them was given.
  var isGiven: Bool { passcode.isGiven || recoveryKey.source != nil || keyFile.source != nil }

  /// Whether a wrong answer may be typed once more.
  var isTypedPasscode: Bool { !isGiven }

  /// Reads whichever was asked for; by default a passcode from the terminal.
  ///
  /// - Parameter name: what a passcode is asked for as.
  func read(_ name: String = "Passcode") throws -> UnlockSecret {
    if let source = recoveryKey.source { return .recoveryKey(try source.read("Recovery key", files)) }
    if let source = keyFile.source { return .keyFile(try source.read(files)) }
    return .passcode(try passcode.source.read(name, files))
  }
}

extension UnlockSecret {
  /// Calls `body` with the secret as the client library takes it.
  func withSecret<Failure: Error>(_ body: (DaemonConnection.Secret) throws(Failure) -> Void) throws(Failure) {
    switch self {
    case .passcode(let bytes):
      try unsafe bytes.withBytes { (bytes) throws(Failure) in try unsafe body(.passcode(bytes)) }
    case .tpmPasscode(let bytes):
      try unsafe bytes.withBytes { (bytes) throws(Failure) in try unsafe body(.tpmPasscode(bytes)) }
    case .recoveryKey(let bytes):
      try unsafe bytes.withBytes { (bytes) throws(Failure) in try unsafe body(.recoveryKey(bytes)) }
    case .keyFile(let bytes):
      try unsafe bytes.withBytes { (bytes) throws(Failure) in try unsafe body(.keyFile(bytes)) }
    }
  }
}
