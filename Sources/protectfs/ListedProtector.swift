import MountDaemon
import StoreFormat

/// A protector, as reports show it. Nothing of it is secret.
struct ListedProtector: Encodable {
  /// 32 hexadecimal digits.
  let id: String
  let kind: String
  let label: String
  /// How a passcode is stretched.
  let keyDerivation: String?

  init(_ protector: KeybagRecord.Protector) {
    id = protector.id.hexadecimal
    label = protector.label
    switch protector.method {
    case .passcode(let derivation):
      kind = "passcode"
      keyDerivation = derivation.words
    case .recoveryKey:
      kind = "recovery key"
      keyDerivation = nil
    case .keyFile:
      kind = "key file"
      keyDerivation = nil
    case .trustedPlatformModule(let derivation, _):
      kind = "TPM passcode"
      keyDerivation = derivation.words
    case .backupPasscode(let derivation, _):
      kind = "backup"
      keyDerivation = derivation.words
    }
  }

  /// The identity of the protector that a user means: by the first digits of it, or by its name.
  static func identity(_ text: String, in protectors: [KeybagRecord.Protector]) throws(CommandFailure) -> [UInt8] {
    let named = protectors.filter { $0.label == text }
    let digits = text.lowercased()
    let numbered = protectors.filter { digits.count >= 4 && $0.id.hexadecimal.hasPrefix(digits) }
    let found = numbered + named.filter { named in !numbered.contains { $0.id == named.id } }
    guard let first = found.first else {
      throw CommandFailure(.failure, "there is no protector '\(text)'; 'protectfs key list' shows those there are")
    }
    guard found.count == 1 else {
      throw CommandFailure(.failure, "'\(text)' may mean \(found.count) protectors; give more digits of its identity")
    }
    return first.id
  }
}

extension KeybagRecord.PasscodeDerivation {
  /// The parameters, for people.
  var words: String {
    "scrypt N=2^\(logN) r=\(r) p=\(p), \((128 * UInt64(r) << UInt64(logN)) >> 20) MiB"
  }
}
