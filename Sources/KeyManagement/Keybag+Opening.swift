import Cryptography
import ProtectfsPolicy
import StoreFormat

// From what a user knows or has to the keybag key, which is in memory only as long as the opened keybag is.
extension Keybag {
  /// Opens the keybag.
  ///
  /// - Parameter effaceable: the secret that belongs to it.
  /// - Throws: `wrongPasscode`, `wrongRecoveryKey`, `wrongKeyFile`; `keybagAltered` when the secret is right but the
  ///   seal is wrong.
  package func open(
    _ secret: borrowing UnlockSecret, deviceKey: borrowing VolumeDeviceKey, effaceable: consuming EffaceableSecret
  ) throws(KeyManagementError) -> OpenKeybag {
    var fingerprint: UInt16?
    guard let opened = try attempt(secret, deviceKey: deviceKey, effaceable: effaceable, &fingerprint) else {
      throw .wrongPasscode
    }
    return opened
  }

  /// Opens the keybag; `nil` for a wrong passcode.
  ///
  /// - Throws: as ``open(_:deviceKey:effaceable:)``, and `tooLittleMemory`, without having tried it.
  /// - Parameter fingerprint: of a wrong passcode, 16 bits by which the same one is known again. To have them costs a
  ///   derivation.
  func attempt(
    _ secret: borrowing UnlockSecret, deviceKey: borrowing VolumeDeviceKey, effaceable: consuming EffaceableSecret,
    _ fingerprint: inout UInt16?
  ) throws(KeyManagementError) -> OpenKeybag? {
    if !deviceKey.isOfHost { try requireMemory(for: secret.kind) }
    let opened: KeybagKey?
    switch secret {
    case .passcode(let passcode):
      if let host = deviceKey.host { return try open(as: host, passcode, deviceKey, effaceable, &fingerprint) }
      let byItself = try tryPasscode(passcode, deviceKey, &fingerprint)
      // The TPM counts wrong ones: it is asked last.
      opened = if let byItself { byItself } else { try tryTPMPasscode(passcode, deviceKey, &fingerprint) }
    case .tpmPasscode(let passcode): opened = try tryTPMPasscode(passcode, deviceKey, &fingerprint)
    case .recoveryKey(let text): opened = try tryRecoveryKey(RecoveryKey(parsing: text))
    case .keyFile(let content): opened = try tryKeyFile(content, deviceKey)
    }
    switch consume opened {
    case .none: return nil
    case .some(let opened):
      try require(sealUnder: opened.key)
      let id = opened.protectorID
      return OpenKeybag(
        keybag: self, protectorID: id,
        keys: KeybagKeys(keybagKey: opened.takeKey(), deviceKey: deviceKey, effaceable: effaceable, storeID))
    }
  }

  /// Opens, for a host and with its passcode, what the keybag has for it; `nil` for a wrong passcode.
  private func open(
    as host: HostKey, _ passcode: borrowing SecretBytes, _ deviceKey: borrowing VolumeDeviceKey,
    _ effaceable: consuming EffaceableSecret, _ fingerprint: inout UInt16?
  ) throws(KeyManagementError) -> OpenKeybag? {
    guard hasHost(host) else { throw .hostUnknown }
    guard let key = try host.open(passcode, &fingerprint) else { return nil }
    let sealKey = try KeyManagementError.wrapping { () throws(CryptographyError) in
      try Self.sealKey(of: storeID, key)
    }
    let id = host.record.id
    try require(sealOfHost: id, sealKey)
    return OpenKeybag(
      keybag: self, protectorID: id,
      keys: KeybagKeys(keybagKey: key, host: id, deviceKey: deviceKey, effaceable: effaceable, storeID))
  }

  /// - Throws: `tooLittleMemory` where there is too little for one of the protectors that are tried: then none is, as
  ///   no guess may go uncounted.
  private func requireMemory(for kind: UnlockSecret.Kind) throws(KeyManagementError) {
    guard kind.takesPasscode else { return }
    for protector in protectors {
      switch protector.method {
      case .passcode(let derivation) where kind == .passcode, .trustedPlatformModule(let derivation, _):
        try PasscodeKey.requireMemory(for: derivation.cost)
      default: continue
      }
    }
  }

  /// A keybag key and the protector that gave it.
  struct KeybagKey: ~Copyable {
    let key: SecretBytes
    let protectorID: [UInt8]

    consuming func takeKey() -> SecretBytes { key }
  }

  /// Tries a passcode on each protector that takes one; `nil` if none does.
  private func tryPasscode(
    _ passcode: borrowing SecretBytes, _ deviceKey: borrowing VolumeDeviceKey, _ fingerprint: inout UInt16?
  ) throws(KeyManagementError) -> KeybagKey? {
    try Self.require(passcode: passcode)
    var isFirst = true
    for protector in protectors {
      guard case .passcode(let derivation) = protector.method else { continue }
      do throws(CryptographyError) {
        let key = try PasscodeKey.derive(passcode, derivation, deviceKey, storeID: storeID)
        if isFirst { fingerprint = try PasscodeKey.fingerprint(of: key) }
        isFirst = false
        return KeybagKey(key: try KeyWrap.unwrap(protector.wrappedKeybagKey, under: key), protectorID: protector.id)
      } catch .wrongKey {
        continue
      } catch {
        throw KeyManagementError(error)
      }
    }
    return nil
  }

  /// Tries a passcode on each protector of which the machine's TPM has a part; `nil` if none is opened.
  private func tryTPMPasscode(
    _ passcode: borrowing SecretBytes, _ deviceKey: borrowing VolumeDeviceKey, _ fingerprint: inout UInt16?
  ) throws(KeyManagementError) -> KeybagKey? {
    try Self.require(passcode: passcode)
    let hasOthers = protectors.contains { if case .passcode = $0.method { true } else { false } }
    var other: UInt16 = 0
    for protector in protectors {
      guard case .trustedPlatformModule(let derivation, let object) = protector.method else { continue }
      let key = try TPMPasscode.open(
        protector, derivation, sealedObject: object, with: passcode, deviceKey, storeID, fingerprint: &other)
      if !hasOthers { fingerprint = other }
      if let key { return KeybagKey(key: key, protectorID: protector.id) }
    }
    return nil
  }

  private func tryRecoveryKey(_ recoveryKey: borrowing RecoveryKey) throws(KeyManagementError) -> KeybagKey {
    let keys = try Self.keys(of: record, recoveryKey: recoveryKey)
    let id = keys.protectorID
    return KeybagKey(key: keys.takeKeybagKey(), protectorID: id)
  }

  private func tryKeyFile(
    _ content: borrowing SecretBytes, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> KeybagKey {
    guard KeyFile.lengths.contains(content.count) else { throw .keyFileMalformed }
    for protector in protectors where protector.method == .keyFile {
      do throws(CryptographyError) {
        let key = try Self.keyFileKey(content, deviceKey, storeID)
        return KeybagKey(key: try KeyWrap.unwrap(protector.wrappedKeybagKey, under: key), protectorID: protector.id)
      } catch .wrongKey {
        continue
      } catch {
        throw KeyManagementError(error)
      }
    }
    throw .wrongKeyFile
  }

  /// The key that a key file and the device key give.
  static func keyFileKey(
    _ content: borrowing SecretBytes, _ deviceKey: borrowing VolumeDeviceKey, _ storeID: StoreID
  ) throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.hkdf(
      ikm: SecretBytes(content, followedBy: deviceKey.secret), salt: storeID.bytes, info: "protectfs key file",
      count: 32)
  }

  /// Verifies the seal.
  func require(sealUnder keybagKey: borrowing SecretBytes) throws(KeyManagementError) {
    let seal = try KeyManagementError.wrapping { () throws(CryptographyError) in
      try Self.seal(of: record, keybagKey)
    }
    guard isEqualInConstantTime(seal, record.seal) else { throw .keybagAltered }
  }

  static func require(passcode: borrowing SecretBytes) throws(KeyManagementError) {
    guard (1...longestPasscode).contains(passcode.count) else { throw .invalidPasscode }
  }
}
