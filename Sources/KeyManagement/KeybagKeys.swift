import Cryptography
import ProtectfsPolicy
import StoreFormat

/// What the parts of a keybag are wrapped and authenticated with.
struct KeybagKeys: ~Copyable, Sendable {
  /// In a keybag that a host opened, its host key.
  let keybagKey: SecretBytes
  /// The identity of the host that opened the keybag; `nil` where that was opened as a whole.
  let host: [UInt8]?
  let deviceKey: VolumeDeviceKey
  /// Absent where the keybag has none.
  let effaceable: EffaceableSecret
  let storeID: StoreID

  init(
    keybagKey: consuming SecretBytes, host: [UInt8]? = nil, deviceKey: borrowing VolumeDeviceKey,
    effaceable: consuming EffaceableSecret, _ storeID: StoreID
  ) {
    self.keybagKey = keybagKey
    self.host = host
    self.deviceKey = deviceKey.copy()
    self.effaceable = effaceable
    self.storeID = storeID
  }

  /// Those of a keybag that nothing opens yet: its keybag key is new.
  init(
    newFor storeID: StoreID, _ deviceKey: borrowing VolumeDeviceKey, _ effaceable: consuming EffaceableSecret
  ) throws(KeyManagementError) {
    let key = try KeyManagementError.wrapping { () throws(CryptographyError) in
      try SecretBytes(randomCount: HeldKey.size)
    }
    self.init(keybagKey: key, deviceKey: deviceKey, effaceable: effaceable, storeID)
  }

  /// The same ones with another effaceable secret.
  func with(_ effaceable: consuming EffaceableSecret) -> KeybagKeys {
    KeybagKeys(keybagKey: keybagKey.copy(), host: host, deviceKey: deviceKey, effaceable: effaceable, storeID)
  }

  // MARK: Class keys

  /// A class key.
  ///
  /// - Throws: `keybagAltered` when it does not unwrap, or a public key is not that of its private key.
  func classKey(_ entry: KeybagRecord.ClassEntry) throws(KeyManagementError) -> SecretBytes {
    try KeyManagementError.wrapping { () throws(CryptographyError) in
      let secret = try KeyWrap.unwrap(entry.wrappedKey, under: wrappingKey(of: entry.fileClass))
      if let publicKey = entry.publicKey, try OnePassDiffieHellman.publicKey(of: secret) != publicKey {
        throw CryptographyError.wrongKey
      }
      return secret
    }
  }

  /// A new key of a class.
  func newEntry(of fileClass: ProtectionClass, id: ClassKeyID) throws(KeyManagementError) -> KeybagRecord.ClassEntry {
    try KeyManagementError.wrapping { () throws(CryptographyError) in
      // Any 32 bytes are an X25519 private key.
      let key = try SecretBytes(randomCount: HeldKey.size)
      return KeybagRecord.ClassEntry(
        fileClass: fileClass, id: id, wrappedKey: try KeyWrap.wrap(key, under: wrappingKey(of: fileClass)),
        publicKey: fileClass.hasKeyPair ? try OnePassDiffieHellman.publicKey(of: key) : nil)
    }
  }

  /// Gives a class a new key, its current one from then on.
  func addKey(of fileClass: ProtectionClass, to record: inout KeybagRecord) throws(KeyManagementError) {
    record.insert(try newEntry(of: fileClass, id: record.newKeyID()))
  }

  /// Class keys of a keybag, wrapped for another one.
  func rewrapped(
    _ entries: [KeybagRecord.ClassEntry], from other: borrowing KeybagKeys
  ) throws(KeyManagementError) -> [KeybagRecord.ClassEntry] {
    var entries = entries
    for index in entries.indices {
      let key = try other.classKey(entries[index])
      entries[index].wrappedKey = try KeyManagementError.wrapping { [entries] () throws(CryptographyError) in
        try KeyWrap.wrap(key, under: wrappingKey(of: entries[index].fileClass))
      }
    }
    return entries
  }

  func wrappingKey(of fileClass: ProtectionClass) throws(CryptographyError) -> SecretBytes {
    if fileClass.isUnlockedByDevice { return try effaceable.wrappingKey(with: deviceKey, of: storeID) }
    guard host != nil else { return try effaceable.wrappingKey(with: keybagKey, of: storeID) }
    return try effaceable.wrappingKey(with: hostClassKey(of: fileClass), of: storeID)
  }

  /// What a host key gives for one class.
  func hostClassKey(of fileClass: ProtectionClass) throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.hkdf(
      ikm: keybagKey, salt: storeID.bytes, info: "protectfs host class \(fileClass.letter)", count: 32)
  }

  // MARK: The keybag

  /// The keybag of a record that was made or changed.
  ///
  /// - Throws: `keybagFull`.
  func keybag(of record: KeybagRecord) throws(KeyManagementError) -> Keybag {
    var record = record
    record.effaceableIdentifier = try KeyManagementError.wrapping { () throws(CryptographyError) in
      try effaceable.identifier(of: storeID)
    }
    try renewHosts(of: &record)
    return try Keybag(authenticating: record, keybagKey: keybagKey, deviceKey: deviceKey)
  }
}
