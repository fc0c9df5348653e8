import Cryptography
import StoreFormat

// Ways in, changed one by one. No class key is changed, so no file is.
extension OpenKeybag {
  /// A new passcode: in place of the one that opened the keybag, or, where something else did, of the only one, if there is
  /// one. It stays with the TPM if it was. At a cost calibrated anew unless given.
  ///
  /// - Throws: `invalidPasscode`; `severalPasscodes`, where nothing says which of them is meant.
  package func changingPasscode(
    to new: borrowing SecretBytes, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> KeybagChange {
    try Keybag.require(passcode: new)
    let passcodes = keybag.protectors.filter(\.method.takesPasscode)
    let opener = passcodes.first { $0.id == protectorID }
    guard opener != nil || passcodes.count <= 1 else { throw .severalPasscodes }
    let replaced = opener ?? passcodes.first
    let label = replaced?.label ?? "passcode"
    let protector: KeybagRecord.Protector
    if let replaced, case .trustedPlatformModule = replaced.method {
      protector = try TPMPasscode.protector(
        for: new, keybagKey, deviceKey, keybag.storeID, cost: cost, id: replaced.id, label: label)
    } else {
      protector = try KeyManagementError.wrapping { () throws(CryptographyError) in
        try Keybag.protector(
          for: new, keybagKey, deviceKey, keybag.storeID, cost: cost, id: replaced?.id, label: label)
      }
    }
    return try change(revokes: true) { (record) throws(CryptographyError) in
      record.protectors.removeAll { $0.id == replaced?.id }
      record.protectors = Keybag.sorted(record.protectors + [protector])
    }
  }

  /// One more way in, under a name that people know it by.
  ///
  /// - Throws: `invalidPasscode`, `recoveryKeyMistyped`, `keyFileMalformed`, `invalidLabel`, `keybagFull`.
  package func adding(
    _ secret: borrowing UnlockSecret, label: String, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> KeybagChange {
    switch secret {
    case .passcode(let passcode): try addingPasscode(passcode, label: label, cost: cost)
    case .tpmPasscode(let passcode):
      try adding(
        try TPMPasscode.protector(
          for: passcode, keybagKey, deviceKey, keybag.storeID, cost: cost, label: label))
    case .recoveryKey(let text): try addingRecoveryKey(RecoveryKey(parsing: text), label: label)
    case .keyFile(let content): try addingKeyFile(content, label: label)
    }
  }

  private func addingPasscode(
    _ passcode: borrowing SecretBytes, label: String, cost: ScryptParameters?
  ) throws(KeyManagementError) -> KeybagChange {
    try Keybag.require(passcode: passcode)
    return try adding(
      try KeyManagementError.wrapping { () throws(CryptographyError) in
        try Keybag.protector(for: passcode, keybagKey, deviceKey, keybag.storeID, cost: cost, label: label)
      })
  }

  private func addingRecoveryKey(
    _ key: borrowing RecoveryKey, label: String
  ) throws(KeyManagementError) -> KeybagChange {
    try adding(
      try KeyManagementError.wrapping { () throws(CryptographyError) in
        try Keybag.protector(for: key, keybagKey, deviceKey, keybag.storeID, label: label)
      })
  }

  private func addingKeyFile(
    _ content: borrowing SecretBytes, label: String
  ) throws(KeyManagementError) -> KeybagChange {
    guard KeyFile.lengths.contains(content.count) else { throw .keyFileMalformed }
    return try adding(
      try KeyManagementError.wrapping { () throws(CryptographyError) in
        try Keybag.protector(forKeyFile: content, keybagKey, deviceKey, keybag.storeID, label: label)
      })
  }

  private func adding(_ protector: KeybagRecord.Protector) throws(KeyManagementError) -> KeybagChange {
    guard protector.label.utf8.count <= KeybagRecord.Protector.longestLabel else { throw .invalidLabel }
    return try change(revokes: false) { (record) throws(CryptographyError) in
      record.protectors = Keybag.sorted(record.protectors + [protector])
    }
  }

  /// The keybag without a way in.
  ///
  /// - Throws: `noSuchWayIn`; `lastWayIn`, without which nothing would open the store.
  package func removing(protector id: [UInt8]) throws(KeyManagementError) -> KeybagChange {
    guard keybag.protectors.contains(where: { $0.id == id }) else { throw .noSuchWayIn }
    guard keybag.protectors.count > 1 else { throw .lastWayIn }
    return try change(revokes: true) { (record) throws(CryptographyError) in
      record.protectors.removeAll { $0.id == id }
    }
  }
}

extension KeybagRecord.Protector.Method {
  /// Whether it is opened by what a user knows.
  package var takesPasscode: Bool {
    switch self {
    case .passcode, .trustedPlatformModule: true
    case .recoveryKey, .keyFile, .backupPasscode: false
    }
  }
}
