import ArgumentParser
import Cryptography
import DataProtection

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

  var source: SecretSource {
    if let file { return .file(file) }
    if let descriptor { return .descriptor(descriptor) }
    if let command { return .command(command) }
    return .terminal
  }

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
    help: "Ask for the recovery key that 'init' printed, instead of the passcode.")
  var isWanted = false

  @Option(
    name: .customLong("recovery-key-file"),
    help: ArgumentHelp("Read the recovery key from a file; '-' is standard input.", valueName: "file"),
    completion: .file())
  var file: String?

  /// Where it comes from; `nil` when a passcode is to be used.
  var source: SecretSource? {
    if let file { return .file(file) }
    return isWanted ? .terminal : nil
  }
}

/// A secret as it goes to the daemon.
struct TypedSecret: ~Copyable {
  let bytes: SecretBytes
  let isRecoveryKey: Bool

  /// Reads whichever of the two was asked for.
  init(_ recoveryKey: RecoveryKeyOptions, or passcode: PasscodeOptions, _ name: String = "Passcode") throws {
    if let source = recoveryKey.source {
      bytes = try source.read("Recovery key")
      isRecoveryKey = true
    } else {
      bytes = try passcode.source.read(name)
      isRecoveryKey = false
    }
  }

  /// Calls `body` with the secret as the client library takes it.
  func withSecret<Failure: Error>(_ body: (DaemonConnection.Secret) throws(Failure) -> Void) throws(Failure) {
    try unsafe bytes.withBytes { (bytes) throws(Failure) in
      try unsafe body(isRecoveryKey ? .recoveryKey(bytes) : .passcode(bytes))
    }
  }
}
