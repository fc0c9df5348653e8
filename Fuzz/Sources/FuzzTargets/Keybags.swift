import ProtectfsPolicy
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
  let ids = record.classEntries.map(\.id) + record.formerKeys.map(\.id)
  precondition(Set(ids).count == ids.count)
  precondition(KeybagRecord.formerKeyCount.contains(record.formerKeys.count))
  for fileClass in ProtectionClass.allCases {
    precondition(record.classEntries.contains { $0.fileClass == fileClass } == (record.erasureTime == nil))
  }
  for entry in record.classEntries {
    precondition(entry.wrappedKey.count == 40)
    precondition(entry.publicKey.map(\.count) == (entry.fileClass == .completeUnlessOpen ? 32 : nil))
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
  case .host(let host):
    precondition(!host.classes.isEmpty && !host.classes.contains(.none))
    precondition(host.wrappedVolumeKey.count == 40 && host.seal.count == 32)
    precondition(host.wrappedClassKeys.allSatisfy { $0.count == 40 })
  }
}

/// What scrypt is asked for must not be more than a machine has.
private func checkCost(_ derivation: KeybagRecord.PasscodeDerivation) {
  precondition(derivation.salt.count == 32 && derivation.p <= 4)
  precondition(128 * UInt64(derivation.r) * (1 << UInt64(derivation.logN)) <= 1 << 30)
}
