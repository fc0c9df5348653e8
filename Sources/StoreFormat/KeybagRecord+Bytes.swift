import ProtectfsPolicy

// The record as bytes. Of fields that determine each other (class, key type, wrapping), one is stored and the others
// are derived from it.
extension KeybagRecord {
  /// The bytes that the seal authenticates.
  package var bytesBeforeSeal: [UInt8] {
    var bytes = Self.magic
    bytes.append(integer: Self.version)
    bytes.append(integer: features.rawValue)
    bytes += storeID.bytes
    bytes.append(integer: generation)
    bytes.append(defaultClass.rawValue)
    bytes += deviceKeyIdentifier
    bytes.append(integer: creationTime)
    bytes += effaceableIdentifier ?? []
    if let eraseAfter { bytes.append(eraseAfter) }
    bytes.append(UInt8(classEntries.count))
    for entry in classEntries { bytes += entry.bytes }
    bytes.append(integer: UInt16(formerKeys.count))
    for key in formerKeys { bytes += key.bytes }
    bytes.append(UInt8(protectors.count))
    for protector in protectors { bytes += protector.bytes }
    return bytes
  }

  /// The bytes that the tag authenticates.
  package var bytesBeforeTag: [UInt8] { bytesBeforeSeal + seal }

  /// The record as it is stored.
  package var bytes: [UInt8] { bytesBeforeTag + tag }
}

extension ProtectionClass {
  /// 1, an X25519 key, in class B; otherwise 0, an AES-256 key.
  var keyType: UInt8 { hasKeyPair ? 1 : 0 }
  /// 1, under a key of the device, in class D; otherwise 2, under the keybag key.
  var wrapping: UInt8 { isUnlockedByDevice ? 1 : 2 }
}

extension KeybagRecord.ClassEntry {
  var bytes: [UInt8] {
    var bytes = [fileClass.rawValue, fileClass.keyType]
    bytes.append(integer: id.rawValue)
    bytes.append(fileClass.wrapping)
    return bytes + wrappedKey + (publicKey ?? [])
  }
}

extension KeybagRecord.FormerKey {
  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(integer: id.rawValue)
    bytes.append(end.rawValue)
    bytes.append(integer: time)
    return bytes
  }
}

extension KeybagRecord.Protector {
  var bytes: [UInt8] {
    var bytes = id
    bytes += [method.type, UInt8(label.utf8.count)]
    bytes += label.utf8
    switch method {
    case .passcode(let derivation): bytes += derivation.bytes + wrappedKeybagKey
    case .recoveryKey(let wrappedVolumeKey): bytes += wrappedKeybagKey + wrappedVolumeKey
    case .keyFile: bytes += wrappedKeybagKey
    case .trustedPlatformModule(let derivation, let sealedObject):
      bytes += derivation.bytes
      bytes.append(integer: UInt16(sealedObject.count))
      bytes += sealedObject + wrappedKeybagKey
    case .backupPasscode(let derivation, let wrappedVolumeKey):
      bytes += derivation.bytes + wrappedKeybagKey + wrappedVolumeKey
    }
    return bytes
  }
}

extension KeybagRecord.Protector.Method {
  var type: UInt8 {
    switch self {
    case .passcode: 1
    case .recoveryKey: 2
    case .keyFile: 3
    case .trustedPlatformModule: 4
    case .backupPasscode: 5
    }
  }
}

extension KeybagRecord.PasscodeDerivation {
  var bytes: [UInt8] { [logN, r, p] + salt }
}
