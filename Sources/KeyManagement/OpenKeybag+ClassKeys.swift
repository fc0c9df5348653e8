import Cryptography
import DataProtectionCore
import Glibc
import StoreFormat

// Class keys, changed: new generations, and the end of old ones.
extension OpenKeybag {
  /// The keybag with a new key of a class, which new and changed records use from then on. The old one stays until
  /// ``finishingRotation(of:)``. `nil` where so many rotations were begun and not finished that there is room for no more
  /// keys: then the last is gone on with.
  package func beginningRotation(of fileClass: ProtectionClass) throws(KeyManagementError) -> KeybagChange? {
    let most = KeybagRecord.classEntryCount.upperBound / ProtectionClass.allCases.count
    guard keybag.generations(of: fileClass).count < most else { return nil }
    return try change(revokes: false, addsKeys: true) { (record) throws(CryptographyError) in
      record.insert(try newEntry(of: fileClass, in: record))
    }
  }

  /// The keybag with the current key of a class alone. No record may refer to an older one any more.
  package func finishingRotation(of fileClass: ProtectionClass) throws(KeyManagementError) -> KeybagChange {
    let current = keybag.generations(of: fileClass).last
    return try change(revokes: true) { (record) throws(CryptographyError) in
      record.classEntries.removeAll {
        $0.fileClass == fileClass && $0.erasureTime == nil && $0.generation != current
      }
    }
  }

  /// The keybag with all keys of a class erased, and a new one for new files. What was encrypted under it is gone.
  package func erasing(_ fileClass: ProtectionClass) throws(KeyManagementError) -> KeybagChange {
    let now = UInt64(max(time(nil), 0))
    return try change(revokes: true) { (record) throws(CryptographyError) in
      let entry = try newEntry(of: fileClass, in: record)
      record.classEntries.removeAll { $0.fileClass == fileClass }
      record.insert(
        KeybagRecord.ClassEntry(fileClass: fileClass, generation: entry.generation - 1, key: .erased(at: now)))
      record.insert(entry)
    }
  }

  /// The keybag with a new key of each class of which another keybag of the store knows a later one. Its number is then
  /// not given again, also when that other keybag is no more. `nil` where there is no such class.
  package func outnumbering(_ other: Keybag) throws(KeyManagementError) -> KeybagChange? {
    let classes = Keybag.classesInOrder.filter {
      let highest = other.highestGeneration(of: $0)
      return highest > keybag.highestGeneration(of: $0) && highest < .max
    }
    guard !classes.isEmpty else { return nil }
    return try change(revokes: false, addsKeys: true) { (record) throws(CryptographyError) in
      for fileClass in classes {
        record.insert(
          try Keybag.newClassEntry(
            fileClass, generation: try record.nextGeneration(of: fileClass, beyond: other.record), keybagKey, deviceKey,
            effaceable, record.storeID))
      }
    }
  }

  private func newEntry(
    of fileClass: ProtectionClass, in record: KeybagRecord
  ) throws(CryptographyError) -> KeybagRecord.ClassEntry {
    try Keybag.newClassEntry(
      fileClass, generation: try record.nextGeneration(of: fileClass), keybagKey, deviceKey, effaceable, record.storeID)
  }

  /// The key of a class under a number; `nil` where there is none, or not any more.
  private func heldKey(of fileClass: ProtectionClass, generation: UInt32) throws(KeyManagementError) -> ClassKey? {
    let entry = keybag.record.classEntries.first { $0.fileClass == fileClass && $0.generation == generation }
    guard let entry else { return nil }
    return try unwrapped(entry)
  }

  /// The keybag with the class keys of another one of the same store that it does not have: of an exported one, or of the
  /// one before a reset. Files that were lost are readable again.
  ///
  /// - Throws: `foreignKeybag`; `keybagFull`; `conflictingKeys` when both have a key of a class under one number, and it is
  ///   not the same: one of the two would be lost.
  package func adding(keysOf other: borrowing OpenKeybag) throws(KeyManagementError) -> KeybagChange {
    guard other.keybag.storeID == keybag.storeID else { throw .foreignKeybag }
    var added: [KeybagRecord.ClassEntry] = []
    for entry in other.keybag.record.classEntries {
      guard let key = try other.unwrapped(entry) else { continue }
      if let own = try heldKey(of: entry.fileClass, generation: entry.generation) {
        guard own.secret == key.secret else { throw .conflictingKeys(entry.fileClass) }
        continue
      }
      let wrapped = try KeyManagementError.wrapping { () throws(CryptographyError) in
        try KeyWrap.wrap(key.secret, under: wrappingKey(of: entry.fileClass, effaceable))
      }
      added.append(
        KeybagRecord.ClassEntry(
          fileClass: entry.fileClass, generation: entry.generation, key: .wrapped(wrapped, publicKey: entry.publicKey)))
    }
    return try change(revokes: false, addsKeys: true) { (record) throws(CryptographyError) in
      for entry in added {
        // A tombstone says that there is nothing any more up to its generation; now there is.
        record.classEntries.removeAll {
          $0.fileClass == entry.fileClass && $0.erasureTime != nil && $0.generation >= entry.generation
        }
        record.insert(entry)
      }
    }
  }
}

extension KeybagRecord {
  /// The highest generation of a class's keys, erased ones included.
  func highestGeneration(of fileClass: ProtectionClass) -> UInt32 {
    classEntries.last { $0.fileClass == fileClass }?.generation ?? 0
  }

  /// The generation of the next key of a class.
  ///
  /// - Parameter other: another keybag of the store, whose generations are given too.
  /// - Throws: `invalidLength` where there is none.
  func nextGeneration(
    of fileClass: ProtectionClass, beyond other: KeybagRecord? = nil
  ) throws(CryptographyError) -> UInt32 {
    let highest = max(highestGeneration(of: fileClass), other?.highestGeneration(of: fileClass) ?? 0)
    guard highest < .max else { throw .invalidLength("a keybag") }
    return highest + 1
  }

  /// Adds a key in its place.
  mutating func insert(_ entry: ClassEntry) {
    let place = classEntries.firstIndex {
      (entry.fileClass.rawValue, entry.generation) < ($0.fileClass.rawValue, $0.generation)
    }
    classEntries.insert(entry, at: place ?? classEntries.count)
  }
}
