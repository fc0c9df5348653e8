import Cryptography
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat

// Class keys, changed: new ones, and the end of old ones.
extension OpenKeybag {
  /// The keybag with a new key of a class, which new and changed records use from then on. The old one stays until
  /// ``finishingRotation(of:)``. `nil` where so many rotations were begun and not finished that there is room for no more
  /// keys: then the last is gone on with.
  package func beginningRotation(of fileClass: ProtectionClass) throws(KeyManagementError) -> KeybagChange? {
    let most = KeybagRecord.classEntryCount.upperBound / ProtectionClass.allCases.count
    guard keybag.keyIDs(of: fileClass).count < most else { return nil }
    return try change(revokes: false, addsKeys: true) { (record) throws(CryptographyError) in
      record.insert(try newEntry(of: fileClass, in: record))
    }
  }

  /// The keybag with the current key of a class alone. No record may refer to another one any more.
  ///
  /// - Parameter known: the keys that the class had during the rotation; all files are under the last one.
  /// - Throws: `keybagChangedMeanwhile` where the class has others now.
  package func finishingRotation(
    of fileClass: ProtectionClass, from known: [ClassKeyID]
  ) throws(KeyManagementError) -> KeybagChange {
    guard let current = known.last, known == keybag.keyIDs(of: fileClass) else { throw .keybagChangedMeanwhile }
    return try change(revokes: true) { (record) throws(CryptographyError) in
      record.end(.rotated) { $0.fileClass == fileClass && $0.id != current }
    }
  }

  /// The keybag with all keys of a class erased, and a new one for new files. What was encrypted under it is gone.
  package func erasing(_ fileClass: ProtectionClass) throws(KeyManagementError) -> KeybagChange {
    try change(revokes: true) { (record) throws(CryptographyError) in
      let entry = try newEntry(of: fileClass, in: record)
      record.end(.erased) { $0.fileClass == fileClass }
      record.insert(entry)
    }
  }

  private func newEntry(
    of fileClass: ProtectionClass, in record: KeybagRecord
  ) throws(CryptographyError) -> KeybagRecord.ClassEntry {
    try Keybag.newClassEntry(fileClass, id: record.newKeyID(), keybagKey, deviceKey, effaceable, record.storeID)
  }

  /// The keybag with the class keys of another one of the same store that it does not have: of an exported one, or of the
  /// one before a reset. Files that were lost are readable again. The current key of a class stays the current one.
  ///
  /// - Parameter endedToo: those too that this one remembers as ended.
  /// - Throws: `foreignKeybag`; `keybagFull`.
  package func adding(
    keysOf other: borrowing OpenKeybag, endedToo: Bool = true
  ) throws(KeyManagementError) -> KeybagChange {
    guard other.keybag.storeID == keybag.storeID else { throw .foreignKeybag }
    var added = keybag.lacking(keysOf: other.keybag).filter { endedToo || !keybag.isRevoked($0.id) }
    for (index, entry) in added.enumerated() {
      let key = try other.unwrapped(entry)
      added[index].wrappedKey = try KeyManagementError.wrapping { () throws(CryptographyError) in
        try KeyWrap.wrap(key.secret, under: wrappingKey(of: entry.fileClass, effaceable))
      }
    }
    return try change(revokes: false, addsKeys: true) { [added] (record) throws(CryptographyError) in
      // Each is put before those that are there.
      for entry in added.reversed() {
        record.formerKeys.removeAll { $0.id == entry.id }
        record.insert(entry, isCurrent: false)
      }
    }
  }
}

extension KeybagRecord {
  /// An identifier that none of its keys has or had.
  func newKeyID() throws(CryptographyError) -> ClassKeyID {
    while true {
      let number = try randomBytes(4).reduce(0 as UInt32) { $0 << 8 | UInt32($1) }
      guard let id = ClassKeyID(rawValue: number), !classEntries.contains(where: { $0.id == id }),
        !formerKeys.contains(where: { $0.id == id })
      else { continue }
      return id
    }
  }

  /// The key of a class that wraps new file keys.
  func currentKeyID(of fileClass: ProtectionClass) -> ClassKeyID? {
    classEntries.last { $0.fileClass == fileClass }?.id
  }

  /// Adds a key in its place: as its class's current one, or as the one that went before all others.
  mutating func insert(_ entry: ClassEntry, isCurrent: Bool = true) {
    let place = classEntries.firstIndex {
      isCurrent ? $0.fileClass.rawValue > entry.fileClass.rawValue : $0.fileClass.rawValue >= entry.fileClass.rawValue
    }
    classEntries.insert(entry, at: place ?? classEntries.count)
  }

  /// Takes class keys out, and remembers their identifiers.
  mutating func end(_ end: FormerKey.End, where isEnded: (ClassEntry) -> Bool) {
    let now = WallClock.seconds
    for entry in classEntries where isEnded(entry) { formerKeys.append(FormerKey(id: entry.id, end: end, time: now)) }
    classEntries.removeAll(where: isEnded)
  }

  /// Forgets former keys for which there is no room. Of the oldest those go first that were rotated away, under which
  /// nothing is; but those that ended last go last, since the keybag before still has them.
  mutating func trimFormerKeys() {
    while formerKeys.count > Self.formerKeyCount.upperBound || (bytes.count > Self.longest && !formerKeys.isEmpty) {
      formerKeys.remove(at: formerKeys.dropLast(Self.classEntryCount.upperBound).firstIndex { $0.end == .rotated } ?? 0)
    }
  }
}
