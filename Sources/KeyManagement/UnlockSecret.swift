import Cryptography

/// What opens a store.
package enum UnlockSecret: ~Copyable, Sendable {
  /// What the user knows, as UTF-8.
  case passcode(SecretBytes)
  /// The same, for a protector that the machine's TPM has a part in.
  case tpmPasscode(SecretBytes)
  /// The text of the recovery key, as it was typed.
  case recoveryKey(SecretBytes)
  /// The content of a key file.
  case keyFile(SecretBytes)
}

extension UnlockSecret {
  /// Its kind.
  package var kind: Kind {
    // Inlined, it makes the optimizer of Swift 6.3 crash.
    @inline(never) get { describeKind() }
  }

  /// One more value with the same secret.
  package func copy() -> UnlockSecret {
    switch self {
    case .passcode(let passcode): .passcode(passcode.copy())
    case .tpmPasscode(let passcode): .tpmPasscode(passcode.copy())
    case .recoveryKey(let text): .recoveryKey(text.copy())
    case .keyFile(let content): .keyFile(content.copy())
    }
  }

  private func describeKind() -> Kind {
    switch self {
    case .passcode: .passcode
    case .tpmPasscode: .tpmPasscode
    case .recoveryKey: .recoveryKey
    case .keyFile: .keyFile
    }
  }

  /// A volume's device key out of its keybag, for the secret that has it: the recovery key. `nil` for others.
  package func recoveredDeviceKey(_ bytes: [UInt8]) throws(KeyManagementError) -> VolumeDeviceKey? {
    switch self {
    case .recoveryKey(let text): try Keybag.recover(bytes, recoveryKey: RecoveryKey(parsing: text))
    default: nil
    }
  }

  /// The kinds of secrets.
  package enum Kind: Sendable {
    case passcode, tpmPasscode, recoveryKey, keyFile

    /// Whether it can be guessed.
    var takesPasscode: Bool { self == .passcode || self == .tpmPasscode }

    /// What a protector is called, unless it was given a name.
    package var label: String {
      switch self {
      case .passcode: "passcode"
      case .tpmPasscode: "TPM passcode"
      case .recoveryKey: "recovery key"
      case .keyFile: "key file"
      }
    }
  }
}

/// The content of a key file: a secret that no one types, 32 to 1024 bytes.
package enum KeyFile {
  /// The lengths that a key file may have, in bytes. Shorter ones could be guessed.
  package static let lengths = 32...1024
}
