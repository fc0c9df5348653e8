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
    guard record.features.contains(.hosts) else { return }
    var hostKeys: [Int: SharedSecret] = [:]
    for index in record.protectors.indices {
      guard var host = record.protectors[index].method.host else { continue }
      let wrapped = record.protectors[index].wrappedKeybagKey
      let key = SharedSecret(
        try KeyManagementError.wrapping { () throws(CryptographyError) in
          try KeyWrap.unwrap(wrapped, under: keyOfHosts())
        })
      host.wrappedClassKeys = try wrappedKeys(
        of: record.classEntries.filter { host.classes.contains($0.fileClass) },
        for: key, record.protectors[index].id)
      record.protectors[index].method = .host(host)
      hostKeys[index] = key
    }
    // The seals are of all that comes before the protectors.
    record.trimFormerKeys()
    for (index, key) in hostKeys {
      guard var host = record.protectors[index].method.host else { continue }
      host.seal = try KeyManagementError.wrapping { [record] () throws(CryptographyError) in
        try Keybag.seal(of: record, for: record.protectors[index], key.secret)
      }
      record.protectors[index].method = .host(host)
    }
  }

  private func wrappedKeys(
    of entries: [KeybagRecord.ClassEntry], for hostKey: SharedSecret, _ id: [UInt8]
  ) throws(KeyManagementError) -> [[UInt8]] {
    let keys = KeybagKeys(
      keybagKey: hostKey.secret.copy(), host: id, deviceKey: deviceKey, effaceable: effaceable.copy(), storeID)
    return try keys.rewrapped(entries, from: self).map(\.wrappedKey)
  }

  /// What the host keys in a keybag are wrapped under.
  private func keyOfHosts() throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.hkdf(ikm: keybagKey, salt: storeID.bytes, info: "protectfs host keys", count: 32)
  }
}

/// A secret that a collection can hold, wiped with its last reference.
private final class SharedSecret: Sendable {
  let secret: SecretBytes

  init(_ secret: consuming SecretBytes) {
    self.secret = secret
  }
}

extension KeybagRecord {
  /// The class keys that a host has, as they are wrapped for it, and those that need no host key.
  func classEntries(ofHost id: [UInt8]) -> [ClassEntry] {
    guard let host = protectors.first(where: { $0.id == id })?.method.host else { return [] }
    var wrapped = host.wrappedClassKeys.makeIterator()
    return classEntries.compactMap { entry in
      if entry.fileClass.isUnlockedByDevice { return entry }
      guard host.classes.contains(entry.fileClass), let key = wrapped.next() else { return nil }
      var entry = entry
      entry.wrappedKey = key
      return entry
    }
  }
}
