import DataProtection

// The record as bytes. Fields that belong together by rule (class, key type, wrapping) are written from one of them.
extension KeybagRecord {
  /// What the seal authenticates.
  package var bytesBeforeSeal: [UInt8] {
    var bytes = Self.magic
    bytes.append(integer: Self.version)
    bytes.append(integer: features)
    bytes += storeID.bytes
    bytes.append(integer: generation)
    bytes.append(defaultClass.rawValue)
    bytes += deviceKeyIdentifier
    bytes.append(integer: creationTime)
    bytes.append(UInt8(classEntries.count))
    for entry in classEntries { bytes += entry.bytes }
    bytes.append(UInt8(protectors.count))
    for protector in protectors { bytes += protector.bytes }
    return bytes
  }

  /// What the tag authenticates.
  package var bytesBeforeTag: [UInt8] { bytesBeforeSeal + seal }

  /// The record as it is stored.
  package var bytes: [UInt8] { bytesBeforeTag + tag }
}

extension ProtectionClass {
  /// 1, an X25519 key, in class B; else 0, an AES-256 key.
  var keyType: UInt8 { self == .completeUnlessOpen ? 1 : 0 }
  /// 1, under a key of the device, in class D; else 2, under the keybag key.
  var wrapping: UInt8 { self == .none ? 1 : 2 }
}

extension KeybagRecord.ClassEntry {
  var bytes: [UInt8] {
    var bytes = [fileClass.rawValue, fileClass.keyType]
    bytes.append(integer: generation)
    bytes.append(fileClass.wrapping)
    bytes += wrappedKey
    return bytes + (publicKey ?? [])
  }
}

extension KeybagRecord.Protector {
  var bytes: [UInt8] {
    var bytes = id
    switch method {
    case .passcode(let derivation):
      bytes += header(type: 1)
      bytes += [derivation.logN, derivation.r, derivation.p]
      bytes += derivation.salt
      bytes += wrappedKeybagKey
    case .recoveryKey(let wrappedVolumeKey):
      bytes += header(type: 2)
      bytes += wrappedKeybagKey
      bytes += wrappedVolumeKey
    }
    return bytes
  }

  private func header(type: UInt8) -> [UInt8] {
    [type, UInt8(label.utf8.count)] + Array(label.utf8)
  }
}
