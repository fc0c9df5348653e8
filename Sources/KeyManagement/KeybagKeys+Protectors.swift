import Cryptography
import StoreFormat

// Protectors: the keybag key, wrapped for those who may open the keybag.
extension KeybagKeys {
  /// A protector for a secret.
  ///
  /// - Parameters:
  ///   - cost: of scrypt; `nil` for one that is calibrated.
  ///   - id: 16 bytes, where it takes the place of another one.
  /// - Throws: `invalidPasscode`, `recoveryKeyMistyped`, `keyFileMalformed`, `trustedPlatformModule`,
  ///   `tooLittleMemory`.
  func protector(
    for secret: borrowing UnlockSecret, label: String, cost: ScryptParameters?, id: [UInt8]? = nil
  ) throws(KeyManagementError) -> KeybagRecord.Protector {
    switch secret {
    case .passcode(let passcode): try protector(for: passcode, label: label, cost: cost, id: id)
    case .tpmPasscode(let passcode): try protector(forTPM: passcode, label: label, cost: cost, id: id)
    case .recoveryKey(let text): try protector(for: RecoveryKey(parsing: text), label: label)
    case .keyFile(let content): try protector(forKeyFile: content, label: label)
    }
  }

  /// A passcode with a salt of its own.
  func protector(
    for passcode: borrowing SecretBytes, label: String = "passcode", cost: ScryptParameters?, id: [UInt8]? = nil
  ) throws(KeyManagementError) -> KeybagRecord.Protector {
    try Keybag.require(passcode: passcode)
    let stretched = try PasscodeKey.stretch(new: passcode, cost: cost)
    return try KeyManagementError.wrapping { () throws(CryptographyError) in
      let key = try PasscodeKey.key(of: stretched.secret, deviceKey, storeID: storeID)
      return try protector(label, under: key, .passcode(stretched.derivation), id: id)
    }
  }

  func protector(
    for recoveryKey: borrowing RecoveryKey, label: String = "recovery key"
  ) throws(KeyManagementError) -> KeybagRecord.Protector {
    try KeyManagementError.wrapping { () throws(CryptographyError) in
      let key = try recoveryKey.wrappingKey(of: storeID)
      return try protector(
        label, under: key, .recoveryKey(wrappedVolumeKey: try KeyWrap.wrap(deviceKey.secret, under: key)))
    }
  }

  private func protector(
    forKeyFile content: borrowing SecretBytes, label: String
  ) throws(KeyManagementError) -> KeybagRecord.Protector {
    guard KeyFile.lengths.contains(content.count) else { throw .keyFileMalformed }
    return try KeyManagementError.wrapping { () throws(CryptographyError) in
      try protector(label, under: Keybag.keyFileKey(content, deviceKey, storeID), .keyFile)
    }
  }

  /// The one of an exported keybag.
  func protector(
    forBackup passcode: borrowing SecretBytes, cost: ScryptParameters?
  ) throws(KeyManagementError) -> KeybagRecord.Protector {
    let stretched = try PasscodeKey.stretch(new: passcode, cost: cost)
    return try KeyManagementError.wrapping { () throws(CryptographyError) in
      let key = try PasscodeKey.backupKey(of: stretched.secret, storeID: storeID)
      return try protector(
        "backup", under: key,
        .backupPasscode(stretched.derivation, wrappedVolumeKey: try KeyWrap.wrap(deviceKey.secret, under: key)))
    }
  }

  func protector(
    _ label: String, under key: borrowing SecretBytes, _ method: KeybagRecord.Protector.Method, id: [UInt8]? = nil
  ) throws(CryptographyError) -> KeybagRecord.Protector {
    let identity = if let id { id } else { try randomBytes(16) }
    return KeybagRecord.Protector(
      id: identity, label: label, wrappedKeybagKey: try KeyWrap.wrap(keybagKey, under: key), method: method)
  }
}

extension KeybagRecord.Protector.Method {
  /// Whether it is opened by what a user knows.
  package var takesPasscode: Bool {
    switch self {
    case .passcode, .trustedPlatformModule: true
    case .recoveryKey, .keyFile, .backupPasscode, .host: false
    }
  }
}
