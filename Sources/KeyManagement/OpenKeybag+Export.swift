import Cryptography
import ProtectfsPolicy
import StoreFormat

// The same class keys in another keybag: one to be kept with a copy of the backing directory, and back again.
extension OpenKeybag {
  /// A keybag that a passcode alone opens, on any machine, with the volume's device key in it. It shares no key with this
  /// one but the class keys, and no effaceable secret: what erases this one leaves it as it is.
  ///
  /// - Throws: `invalidPasscode`.
  package func exported(
    for passcode: borrowing SecretBytes, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> Keybag {
    try Keybag.require(passcode: passcode)
    var record = keybag.record
    record.effaceableIdentifier = nil
    record.eraseAfter = nil
    return try reporting { () throws(CryptographyError) in
      let newKey = try SecretBytes(randomCount: ClassKey.size)
      record.classEntries = try rewrapped(record.classEntries, under: newKey, .absent())
      record.protectors = [
        try Keybag.protector(forBackup: passcode, newKey, deviceKey, record.storeID, cost: cost)
      ]
      return try Keybag(sealing: record, keybagKey: newKey, deviceKey: deviceKey)
    }
  }

  /// The keybag of these bytes; `nil` unless it authenticates as one of the same store.
  package func sibling(_ bytes: [UInt8]) -> Keybag? {
    guard let other = try? Keybag(parsing: bytes, deviceKey: deviceKey) else { return nil }
    return other.storeID == keybag.storeID ? other : nil
  }

  /// A keybag for a store whose own one cannot be opened here, made of this one, which was exported: with a new passcode
  /// and a new recovery key.
  ///
  /// - Parameter others: the authentic keybags that the store has, the one whose place it takes first. Of classes whose
  ///   current key is not the current one there, it has a new one: theirs may be older, and its end was wanted.
  /// - Throws: `invalidPasscode`, `keybagFull`.
  package func replacement(
    over others: [KeybagRecord], passcode: borrowing SecretBytes, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> Keybag.New {
    try Keybag.require(passcode: passcode)
    var record = keybag.record
    record.generation = max(others.map(\.generation).max() ?? 0, record.generation)
    try record.advance()
    record.eraseAfter = others.first?.eraseAfter
    return try reporting { () throws(CryptographyError) in
      let newKey = try SecretBytes(randomCount: ClassKey.size)
      let recoveryKey = try RecoveryKey()
      let effaceable = try EffaceableSecret()
      record.effaceableIdentifier = try effaceable.identifier(of: record.storeID)
      record.classEntries = try rewrapped(record.classEntries, under: newKey, effaceable)
      for fileClass in Keybag.classesInOrder {
        let current = record.currentKeyID(of: fileClass)
        guard others.contains(where: { $0.currentKeyID(of: fileClass) != current }) else { continue }
        record.insert(
          try Keybag.newClassEntry(
            fileClass, id: record.newKeyID(), newKey, deviceKey, effaceable, record.storeID))
      }
      // What another keybag has is not lost.
      record.formerKeys.removeAll { key in others.contains { $0.classEntries.contains { $0.id == key.id } } }
      record.protectors = Keybag.sorted([
        try Keybag.protector(for: passcode, newKey, deviceKey, record.storeID, cost: cost),
        try Keybag.protector(for: recoveryKey, newKey, deviceKey, record.storeID),
      ])
      record.trimFormerKeys()
      guard record.hasRoom else { throw CryptographyError.invalidLength("a keybag") }
      return Keybag.New(
        keybag: try Keybag(sealing: record, keybagKey: newKey, deviceKey: deviceKey), effaceable: effaceable,
        recoveryKey: recoveryKey)
    }
  }

  /// Class keys of this keybag, wrapped for another.
  func rewrapped(
    _ entries: [KeybagRecord.ClassEntry], under newKey: borrowing SecretBytes, _ fresh: borrowing EffaceableSecret
  ) throws(CryptographyError) -> [KeybagRecord.ClassEntry] {
    var entries = entries
    for (index, entry) in entries.enumerated() {
      let key = try KeyWrap.unwrap(entry.wrappedKey, under: wrappingKey(of: entry.fileClass, effaceable))
      let newWrappingKey =
        entry.fileClass.isUnlockedByDevice
        ? try fresh.wrappingKey(with: deviceKey, of: keybag.storeID)
        : try fresh.wrappingKey(with: newKey, of: keybag.storeID)
      entries[index].wrappedKey = try KeyWrap.wrap(key, under: newWrappingKey)
    }
    return entries
  }

  private func reporting<Result: ~Copyable>(
    _ body: () throws(CryptographyError) -> Result
  ) throws(KeyManagementError) -> Result {
    do throws(CryptographyError) {
      return try body()
    } catch {
      throw error == .invalidLength("a keybag") ? .keybagFull : KeyManagementError(unwrapping: error)
    }
  }
}
