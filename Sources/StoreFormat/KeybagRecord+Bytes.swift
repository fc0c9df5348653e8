import ProtectfsPolicy

// The record as bytes. Of fields that determine each other (class, key type, wrapping), one is stored and the others
// are derived from it.
extension KeybagRecord {
  /// The bytes that each host's seal begins with.
  package var bytesBeforeProtectors: [UInt8] {
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
    return bytes
  }

  /// The bytes that the seal authenticates.
  package var bytesBeforeSeal: [UInt8] {
    var bytes = bytesBeforeProtectors
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
  var bytes: [UInt8] { bytesBeforeSeal + (method.host?.seal ?? []) }

  /// All bytes but a host's seal.
  package var bytesBeforeSeal: [UInt8] {
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
    case .host(let host):
      bytes += wrappedKeybagKey + [host.classes.hostBits] + host.wrappedVolumeKey + host.wrappedClassKeys.joined()
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
    case .host: 6
    }
  }
}

extension [ProtectionClass] {
  /// The classes that a host may have keys of, sorted by their numbers: all but D, which needs none.
  package static let ofHosts = ProtectionClass.allCases.filter { !$0.isUnlockedByDevice }
    .sorted { $0.rawValue < $1.rawValue }

  /// A bit for each class, by its number, from 0 for class A.
  package var hostBits: UInt8 { reduce(0) { $0 | 1 << ($1.rawValue - 1) } }

  /// The classes that such bits stand for; `nil` for bits that stand for none, or if there is no bit.
  init?(hostBits: UInt8) {
    self = Self.ofHosts.filter { hostBits & 1 << ($0.rawValue - 1) != 0 }
    guard !isEmpty, self.hostBits == hostBits else { return nil }
  }
}

extension KeybagRecord.PasscodeDerivation {
  package var bytes: [UInt8] { [logN, r, p] + salt }
}
