/// What is fuzzed: a function that is given any bytes, and ends the process when something is not as it must be.
///
/// What must hold is stated by preconditions, as they are there in every build. That nothing traps, reads out of bounds
/// or runs for long goes without saying.
package enum FuzzTarget: String, CaseIterable, Sendable {
  /// A keybag's bytes.
  case keybag
  /// A keybag that authenticates, so that what is behind the tag is reached: opened, changed, erased.
  case keybagContents = "keybag-contents"
  /// The records of files and directories.
  case records
  /// Batches of rekeys.
  case rekeyBatches = "rekey-batches"
  /// Contents in pages, and what an attacker makes of them.
  case pages
  /// The record of wrong passcodes.
  case attempts
  /// Requests of hosts, and their own files.
  case hostRecords = "host-records"
  /// Names, sidecars and target files as a backing directory has them.
  case names
  /// Names and targets, sealed and opened again.
  case sealedNames = "sealed-names"
  /// Texts that stand for bytes: base64url, hexadecimal digits, identities of stores.
  case encodings
  /// Stored extended attributes, and values of the one that is the class.
  case attributes
  /// Recovery keys as they are typed.
  case recoveryKey = "recovery-key"
  /// Calls to the daemon.
  case control
  /// The options of a mount.
  case mountOptions = "mount-options"
  /// Lines of `/proc/self/mountinfo`.
  case mountLines = "mount-lines"
  /// Objects that a TPM sealed.
  case sealedObject = "sealed-object"

  /// No longer input is of use, in bytes.
  package var longestInput: Int {
    switch self {
    case .keybag, .keybagContents, .sealedObject, .rekeyBatches: 2048
    case .records, .attempts: 160
    case .hostRecords: 256
    case .names, .sealedNames: 4300
    case .encodings, .attributes, .recoveryKey, .mountLines, .pages: 512
    case .control, .mountOptions: 1024
    }
  }

  /// Whether an input takes so long that a short run tries fewer.
  package var isSlow: Bool { [.keybagContents, .control, .pages].contains(self) }

  /// Tries one input.
  package func run(_ bytes: [UInt8]) {
    switch self {
    case .keybag: fuzzKeybag(bytes)
    case .keybagContents: fuzzKeybagContents(bytes)
    case .records: fuzzRecords(bytes)
    case .rekeyBatches: fuzzRekeyBatches(bytes)
    case .pages: fuzzPages(bytes)
    case .attempts: fuzzAttempts(bytes)
    case .hostRecords: fuzzHostRecords(bytes)
    case .names: fuzzNames(bytes)
    case .sealedNames: fuzzSealedNames(bytes)
    case .encodings: fuzzEncodings(bytes)
    case .attributes: fuzzAttributes(bytes)
    case .recoveryKey: fuzzRecoveryKey(bytes)
    case .control: fuzzControl(bytes)
    case .mountOptions: fuzzMountOptions(bytes)
    case .mountLines: fuzzMountLines(bytes)
    case .sealedObject: fuzzSealedObject(bytes)
    }
  }
}

/// What cannot fail here, as its input is right: the target is at fault, or what it calls.
func must<Result: ~Copyable, Failure: Error>(_ what: String, _ body: () throws(Failure) -> Result) -> Result {
  do throws(Failure) { return try body() } catch { fatalError("\(what): \(error)") }
}
