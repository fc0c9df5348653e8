import Cryptography
import ProtectfsPolicy
import StoreFormat

// Hosts in a keybag: the keys of some classes, wrapped for each with its host key. Whoever changes the keybag has the
// host keys, and wraps the class keys for all hosts in the same step.
extension KeybagKeys {
  /// What makes a machine a host.
  func protector(for request: borrowing HostRequest) throws(KeyManagementError) -> KeybagRecord.Protector {
    try KeyManagementError.wrapping { () throws(CryptographyError) in
      KeybagRecord.Protector(
        id: request.record.id, label: request.record.label,
        wrappedKeybagKey: try KeyWrap.wrap(request.hostKey, under: keyOfHosts()),
        method: .host(
          KeybagRecord.Protector.Host(
            classes: request.classes, wrappedVolumeKey: try KeyWrap.wrap(deviceKey.secret, under: request.deliveryKey)))
      )
    }
  }

  /// Wraps the class keys for each host, and makes its seal.
  ///
  /// - Throws: `keybagFull`.
  func renewHosts(of record: inout KeybagRecord) throws(KeyManagementError) {
    for index in record.protectors.indices {
      guard var host = record.protectors[index].method.host else { continue }
      // As long as those that are to come, which say what there is room for.
      host.wrappedClassKeys = record.classEntries(given: host.classes).map(\.wrappedKey)
      record.protectors[index].method = .host(host)
    }
    // The seals are of all that comes before the protectors.
    record.trimFormerKeys()
    for index in record.protectors.indices {
      guard let host = record.protectors[index].method.host else { continue }
      record.protectors[index] = try renewed(host, of: record.protectors[index], in: record)
    }
  }

  private func renewed(
    _ host: KeybagRecord.Protector.Host, of protector: KeybagRecord.Protector, in record: KeybagRecord
  ) throws(KeyManagementError) -> KeybagRecord.Protector {
    var (host, protector) = (host, protector)
    let keys = try KeyManagementError.wrapping { [protector] () throws(CryptographyError) in
      KeybagKeys(
        keybagKey: try KeyWrap.unwrap(protector.wrappedKeybagKey, under: keyOfHosts()), host: protector.id,
        deviceKey: deviceKey, effaceable: effaceable.copy(), storeID)
    }
    host.wrappedClassKeys = try keys.rewrapped(record.classEntries(given: host.classes), from: self).map(\.wrappedKey)
    protector.method = .host(host)
    host.seal = try KeyManagementError.wrapping { [protector] () throws(CryptographyError) in
      try Keybag.seal(of: record, for: protector, Keybag.sealKey(of: storeID, keys.keybagKey))
    }
    protector.method = .host(host)
    return protector
  }

  /// What the host keys in a keybag are wrapped under.
  private func keyOfHosts() throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.hkdf(ikm: keybagKey, salt: storeID.bytes, info: "protectfs host keys", count: 32)
  }
}

extension KeybagRecord {
  /// A host's protector, and what it has there; `nil` where there is none.
  func host(_ id: [UInt8]) -> (protector: Protector, host: Protector.Host)? {
    guard let protector = protectors.first(where: { $0.id == id }), let host = protector.method.host else { return nil }
    return (protector, host)
  }

  fileprivate func classEntries(given classes: [ProtectionClass]) -> [ClassEntry] {
    classEntries.filter { classes.contains($0.fileClass) }
  }

  /// The class keys that a host has, as they are wrapped for it, and those that need no host key.
  func classEntries(ofHost id: [UInt8]) -> [ClassEntry] {
    guard let host = host(id)?.host else { return [] }
    let own = zip(classEntries(given: host.classes), host.wrappedClassKeys).map { entry, key in
      ClassEntry(fileClass: entry.fileClass, id: entry.id, wrappedKey: key, publicKey: entry.publicKey)
    }
    return own + classEntries.filter(\.fileClass.isUnlockedByDevice)
  }
}

extension Keybag {
  /// Whether it has keys for a host.
  package func hasHost(_ host: HostKey) -> Bool { record.host(host.record.id) != nil }

  /// Verifies the seal of a host.
  ///
  /// - Throws: `hostUnknown`, `keybagAltered`.
  func require(sealOfHost id: [UInt8], _ sealKey: borrowing SecretBytes) throws(KeyManagementError) {
    guard let (protector, host) = record.host(id) else { throw .hostUnknown }
    let seal = try KeyManagementError.wrapping { () throws(CryptographyError) in
      try Self.seal(of: record, for: protector, sealKey)
    }
    guard isEqualInConstantTime(seal, host.seal) else { throw .keybagAltered }
  }
}
