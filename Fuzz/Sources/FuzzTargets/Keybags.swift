import DataProtectionCore
import StoreFormat

func fuzzKeybag(_ bytes: [UInt8]) {
  let record: KeybagRecord
  do throws(FormatError) {
    record = try KeybagRecord(parsing: bytes)
  } catch {
    precondition(!error.description.isEmpty)
    return
  }
  precondition(record.bytes == bytes, "a keybag has one form")
  precondition(bytes.count <= KeybagRecord.longest)
  precondition(KeybagRecord.classEntryCount.contains(record.classEntries.count))
  precondition(KeybagRecord.protectorCount.contains(record.protectors.count))
  precondition(record.generation > 0 && record.defaultClass != .none)
  precondition((record.erasureTime != nil) == record.protectors.isEmpty)
  for fileClass in ProtectionClass.allCases {
    let generations = record.classEntries.filter { $0.fileClass == fileClass }.map(\.generation)
    precondition(!generations.isEmpty && generations == Set(generations).sorted())
  }
  for entry in record.classEntries {
    switch entry.key {
    case .wrapped(let key, let publicKey):
      precondition(key.count == 40 && publicKey.map(\.count) == (entry.fileClass == .completeUnlessOpen ? 32 : nil))
    case .erased(let time): precondition(time <= UInt64(Int64.max))
    }
  }
  for protector in record.protectors { checkProtector(protector) }
}

private func checkProtector(_ protector: KeybagRecord.Protector) {
  precondition(protector.id.count == 16 && protector.wrappedKeybagKey.count == 40)
  precondition(protector.label.utf8.count <= KeybagRecord.Protector.longestLabel)
  switch protector.method {
  case .passcode(let derivation): checkCost(derivation)
  case .trustedPlatformModule(let derivation, let sealedObject):
    checkCost(derivation)
    precondition((1...KeybagRecord.Protector.longestSealedObject).contains(sealedObject.count))
  case .backupPasscode(let derivation, let wrappedVolumeKey):
    checkCost(derivation)
    precondition(wrappedVolumeKey.count == 40)
  case .recoveryKey(let wrappedVolumeKey): precondition(wrappedVolumeKey.count == 40)
  case .keyFile: break
  }
}

/// What scrypt is asked for must not be more than a machine has.
private func checkCost(_ derivation: KeybagRecord.PasscodeDerivation) {
  precondition(derivation.salt.count == 32 && derivation.p <= 4)
  precondition(128 * UInt64(derivation.r) * (1 << UInt64(derivation.logN)) <= 1 << 30)
}
