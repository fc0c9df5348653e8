import Cryptography
import Foundation
import ProtectfsPolicy
import StoreFormat
import Testing

@testable import KeyManagement

/// What may replace a keybag and its second copy.
@Suite("The second copy of the keybag") struct SecondCopyTests {
  /// The store's keybag in its place, opened.
  private func opened(_ stored: borrowing StoredKeybag) throws -> OpenKeybag {
    let keybag = try Keybag(parsing: stored.file.read(), deviceKey: stored.deviceKey)
    return try stored.file.open(keybag, with: .passcode(stored.store.passcode()), deviceKey: stored.deviceKey)
  }

  private func current(_ stored: borrowing StoredKeybag) throws -> Keybag {
    try Keybag(parsing: stored.file.read(), deviceKey: stored.deviceKey)
  }

  /// Rotates class C.
  private func rotate(_ stored: borrowing StoredKeybag) throws {
    let change = try opened(stored).changed(by: .beginRotation(.standard))
    try stored.file.commit(change)
    let keys = try current(stored).keyIDs(of: .standard)
    try stored.file.commit(opened(stored).changed(by: .finishRotation(.standard, from: keys)))
  }

  private func reset(_ stored: borrowing StoredKeybag) throws {
    let keybag = try current(stored)
    let reset = try keybag.resetting(
      passcode: stored.store.passcode(), deviceKey: stored.deviceKey,
      effaceable: stored.file.effaceableSecret(of: keybag), cost: TestStore.cost)
    try stored.file.commit(reset.change)
  }

  private func restore(_ stored: borrowing StoredKeybag) throws {
    let previous = try Keybag(parsing: stored.file.readPrevious(), deviceKey: stored.deviceKey)
    try stored.file.restore(previous, over: found(stored))
  }

  private func found(_ stored: borrowing StoredKeybag) throws -> AuthenticKeybags {
    try stored.file.authenticKeybags(of: stored.keybag.storeID, stored.deviceKey)
  }

  /// Imports an exported keybag in place of the store's.
  private func replace(_ stored: borrowing StoredKeybag, with exported: [UInt8]) throws -> Keybag {
    let backup = try Keybag.open(exported: exported, backupPasscode: "backup".secret)
    let found = try found(stored)
    let new = try backup.replacement(
      over: found, passcode: "new".secret, cost: TestStore.cost)
    try stored.file.commit(new.change)
    return new.keybag
  }

  private func exported(_ stored: borrowing StoredKeybag) throws -> [UInt8] {
    try opened(stored).exported(for: "backup".secret, cost: TestStore.cost).bytes
  }

  enum Damage: CaseIterable { case oneByte, unparsable, missing, stale }

  private func damage(_ stored: borrowing StoredKeybag, _ damage: Damage) throws {
    var bytes = try stored.file.read()
    switch damage {
    case .oneByte: bytes[300] ^= 1
    case .unparsable: bytes[2] ^= 1
    case .missing: return try stored.directory.descriptor.unlink(".protectfs/keybag")
    case .stale: bytes = stored.keybag.bytes
    }
    try stored.directory.write(".protectfs/keybag", bytes)
  }

  // MARK: What an import replaces

  /// Only the second copy has the newest keys. It stays, with its secret, and can undo the import.
  @Test(arguments: Damage.allCases) func aGoodSecondCopyOutlivesAnImport(_ damage: Damage) throws {
    let stored = try StoredKeybag()
    let backup = try exported(stored)
    let first = try current(stored).keyIDs(of: .standard)
    try rotate(stored)
    let good = try stored.file.readPrevious()
    try self.damage(stored, damage)
    #expect(try !found(stored).currentOpens && found(stored).previousOpens)

    let new = try replace(stored, with: backup)
    #expect(try stored.file.readPrevious() == good)
    #expect(new.keyIDs(of: .standard).dropLast() == first[...], "a key that was rotated away is current again")
    #expect(try new.keyIDs(of: .complete) == found(stored).previous?.keyIDs(of: .complete))
    for _ in 0..<2 {
      try stored.file.repair(new, deviceKey: stored.deviceKey)
      #expect(try stored.file.readPrevious() == good)
      #expect(try found(stored).previousOpens && found(stored).currentOpens)
    }
    try restore(stored)
    #expect(try stored.file.read() == good)
    #expect(try stored.file.readPrevious() == new.bytes)
    _ = try opened(stored).heldKeys()
    try stored.file.repair(current(stored), deviceKey: stored.deviceKey)
    #expect(try found(stored).previousOpens)
  }

  /// Of two keybags that open, the one with keys that the new one lacks is kept.
  @Test func whatHasMoreIsKept() throws {
    let stored = try StoredKeybag()
    let before = try exported(stored)
    try reset(stored)
    let (original, new) = (try stored.file.readPrevious(), try stored.file.read())
    let after = try exported(stored)
    _ = try replace(stored, with: after)
    #expect(try stored.file.readPrevious() == original)

    try stored.directory.write(".protectfs/keybag", new)
    _ = try replace(stored, with: before)
    #expect(try stored.file.readPrevious() == new)
  }

  /// A second copy that an import set aside and that has no other keys is replaced by a copy, and its secret
  /// overwritten.
  @Test func whatHasNothingMoreIsNotKept() throws {
    let stored = try StoredKeybag()
    let backup = try exported(stored)
    let new = try replace(stored, with: backup)
    #expect(try stored.file.readPrevious() == stored.keybag.bytes)
    try stored.file.repair(new, deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == new.bytes)
    #expect(throws: KeyManagementError.effaceableSecretMissing) {
      _ = try stored.file.effaceableSecret(of: stored.keybag)
    }
  }

  /// Two copies of a store that have both rotated a class each have a key that the other lacks.
  @Test func whatACopyOfTheStoreHasIsKept() throws {
    let stored = try StoredKeybag()
    try rotate(stored)
    let whole = try Keybag.open(exported: exported(stored), backupPasscode: "backup".secret)
    var record = whole.keybag.record
    let place = try #require(record.classEntries.firstIndex { $0.fileClass == .standard })
    record.classEntries[place] = try whole.keys.newEntry(of: .standard, id: record.newKeyID())
    let other = try Keybag(authenticating: record, keybagKey: whole.keys.keybagKey, deviceKey: whole.keys.deviceKey)
    let old = try current(stored)
    #expect(other.lacking(keysOf: old).map(\.fileClass) == [.standard])
    let new = try replace(stored, with: other.bytes)
    try stored.file.repair(new, deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == old.bytes)
    _ = try stored.file.effaceableSecret(of: old)
  }

  /// A second copy that cannot be read now may have keys that exist nowhere else.
  @Test func whatCannotBeReadIsKept() throws {
    let stored = try StoredKeybag()
    let before = try exported(stored)
    try reset(stored)
    let new = try replace(stored, with: before)
    let previous = try stored.file.readPrevious()
    let opened = try Keybag(parsing: previous, deviceKey: stored.deviceKey)
    // Through a symbolic link, which is not followed.
    let path = stored.directory.path
    try FileManager.default.moveItem(atPath: path + "/.protectfs/keybag.previous", toPath: path + "/elsewhere")
    try FileManager.default.createSymbolicLink(
      atPath: path + "/.protectfs/keybag.previous", withDestinationPath: "../elsewhere")
    #expect(throws: KeyManagementError.previousKeybagKept(.tooManySymbolicLinkLevels)) {
      try stored.file.repair(new, deviceKey: stored.deviceKey)
    }
    _ = try stored.file.effaceableSecret(of: opened)
  }

  @Test func anotherKeybagMeanwhileIsNotReplaced() throws {
    let stored = try StoredKeybag()
    let found = try found(stored)
    let backup = try Keybag.open(exported: exported(stored), backupPasscode: "backup".secret)
    let new = try backup.replacement(over: found, passcode: "new".secret, cost: TestStore.cost)
    try rotate(stored)
    let now = try stored.file.read()
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) { try stored.file.commit(new.change) }
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) { try stored.file.restore(stored.keybag, over: found) }
    #expect(try stored.file.read() == now)
  }

  /// A damaged keybag does not become the second copy.
  @Test(arguments: [Damage.oneByte, .unparsable, .missing])
  func restoringKeepsNoDamagedKeybag(_ damage: Damage) throws {
    let stored = try StoredKeybag()
    let good = try stored.file.readPrevious()
    try self.damage(stored, damage)
    try restore(stored)
    #expect(try stored.file.read() == good)
    #expect(try stored.file.readPrevious() == good)
    #expect(stored.directory.names(in: ".protectfs") == ["effaceable", "keybag", "keybag.previous"])
  }

  /// One that needs a newer program is not damaged, and nothing takes its place.
  @Test(arguments: ["keybag", "keybag.previous"]) func aNewerVersionIsNotReplaced(_ name: String) throws {
    let stored = try StoredKeybag()
    try reset(stored)
    var bytes = try stored.directory.read(".protectfs/" + name)
    bytes[8] = 3
    try stored.directory.write(".protectfs/" + name, bytes)
    #expect(throws: KeyManagementError.unsupportedStore(.unsupportedVersion(record: .keybag, version: 3))) {
      _ = try found(stored)
    }
    if name == "keybag.previous" {
      #expect(throws: KeyManagementError.unsupportedStore(.unsupportedVersion(record: .keybag, version: 3))) {
        _ = try stored.file.apply(.beginRotation(.complete), to: opened(stored))
      }
    }
    #expect(try stored.directory.read(".protectfs/" + name) == bytes)
  }

  /// A restoration that could not exchange the names, cut short when the one that is put back has neither name.
  @Test func aRestorationThatWasCutShort() throws {
    let stored = try StoredKeybag()
    try reset(stored)
    let (new, old) = try (stored.file.read(), stored.file.readPrevious())
    try stored.directory.write(".protectfs/keybag.previous", new)
    try stored.directory.write(".protectfs/keybag.previous.new", old)
    try stored.file.repair(current(stored), deviceKey: stored.deviceKey)
    #expect(try stored.file.read() == new)
    #expect(try stored.file.readPrevious() == old)
    #expect(stored.directory.names(in: ".protectfs") == ["effaceable", "keybag", "keybag.previous"])
    // What another change leaves under that name is none.
    try restore(stored)
    try stored.directory.write(".protectfs/keybag.previous.new", [1, 2, 3])
    try stored.directory.write(".protectfs/keybag.previous", old)
    try stored.file.finishRestoration()
    #expect(try stored.file.readPrevious() == old)
  }

  /// A second copy that cannot be read for a moment may have keys that are nowhere else.
  @Test func whatCannotBeReadIsNotOverwritten() throws {
    let stored = try StoredKeybag()
    let opened = try stored.open(.recoveryKey(stored.new.recoveryKey.text()))
    // Read by a symbolic link, which is not followed.
    let path = stored.directory.path + "/.protectfs/keybag.previous"
    try FileManager.default.moveItem(atPath: path, toPath: stored.directory.path + "/elsewhere")
    try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "../elsewhere")
    #expect(throws: KeyManagementError.keybagUnwritable(.tooManySymbolicLinkLevels)) {
      _ = try stored.file.apply(.beginRotation(.complete), to: opened)
    }
    #expect(throws: KeyManagementError.keybagUnreadable(.tooManySymbolicLinkLevels)) { _ = try found(stored) }
    #expect(try stored.file.read() == stored.keybag.bytes)
    #expect(throws: KeyManagementError.keybagUnreadable(.tooManySymbolicLinkLevels)) {
      _ = try stored.file.readPrevious()
    }
    // An erasure does not wait for it.
    let erased = try stored.file.apply(.eraseClass(.complete), to: opened)
    #expect(erased.failure == nil)
    #expect(try stored.file.readPrevious() == erased.keybag.bytes)
  }

  // MARK: Identifiers of class keys

  /// What was made and erased after the export stays known as erased, also where the keybag that remembers it is
  /// replaced.
  @Test func whatEndedAfterAnExportIsRemembered() throws {
    let stored = try StoredKeybag()
    let backup = try exported(stored)
    let first = try #require(current(stored).keyIDs(of: .complete).first)
    var ended: [ClassKeyID] = []
    for _ in 0..<2 {
      try stored.file.commit(opened(stored).changed(by: .eraseClass(.complete)))
      ended += try current(stored).keyIDs(of: .complete)
    }
    let last = ended.removeLast()
    let new = try replace(stored, with: backup)
    #expect(ended.allSatisfy(new.isRetired))
    // What it brings back, and what the one before it still has, have not ended.
    #expect(new.keyIDs(of: .complete).contains(first) && !new.isRetired(first))
    #expect(!new.isRetired(last))
    #expect(try Keybag(parsing: new.bytes, deviceKey: stored.deviceKey) == new)
  }

  /// What ended is remembered by the keybag that ended it, and by those made of it.
  @Test func endedKeysAreRemembered() throws {
    let stored = try StoredKeybag()
    let first = try current(stored)
    try rotate(stored)
    try stored.file.commit(opened(stored).changed(by: .eraseClass(.complete)))
    let ended = first.keyIDs(of: .standard) + first.keyIDs(of: .complete)
    #expect(try current(stored).record.formerKeys.map(\.id) == ended)
    #expect(try current(stored).record.formerKeys.map(\.end) == [.rotated, .erased])
    for id in ended { #expect(try current(stored).isRetired(id) && !first.isRetired(id)) }

    let last = try current(stored)
    try reset(stored)
    let all = try current(stored)
    for fileClass in ProtectionClass.allCases where fileClass != .none {
      #expect(last.keyIDs(of: fileClass).allSatisfy(all.isRetired))
      #expect(all.keyIDs(of: fileClass).count == 1)
    }
    #expect(all.keyIDs(of: .none) == first.keyIDs(of: .none))
  }

  /// The history is bounded. Keys that were rotated away are dropped first, since no file is under them.
  @Test func theHistoryHasAnEnd() throws {
    var record = try current(StoredKeybag()).record
    let erased = try #require(record.classEntries.first { $0.fileClass == .complete })
    record.end(.erased) { $0.id == erased.id }
    record.insert(erased.renamed(try record.newKeyID()))
    for _ in 0..<300 {
      let old = try #require(record.classEntries.first { $0.fileClass == .standard })
      record.insert(old.renamed(try record.newKeyID()))
      record.end(.rotated) { $0.id == old.id }
      record.trimFormerKeys()
    }
    #expect(record.formerKeys.count == 256)
    #expect(record.formerKeys[0].id == erased.id)
    #expect(try KeybagRecord(parsing: record.bytes) == record)
    for _ in 0..<300 {
      let old = try #require(record.classEntries.first { $0.fileClass == .complete })
      record.end(.erased) { $0.id == old.id }
      record.insert(old.renamed(try record.newKeyID()))
      record.trimFormerKeys()
    }
    #expect(record.formerKeys.count == 256 && record.formerKeys.allSatisfy { $0.end == .erased })
  }

  /// If there is room for a keybag, there is room for it after the erasure of a class.
  @Test func erasureNeedsNoRoom() throws {
    var record = try current(StoredKeybag()).record
    let key = try #require(record.classEntries.last)
    while record.classEntries.count < 64 { record.insert(key.renamed(try record.newKeyID())) }
    let way = KeybagRecord.Protector(
      id: [UInt8](repeating: 0xff, count: 16), label: String(repeating: "x", count: 64),
      wrappedKeybagKey: [UInt8](repeating: 1, count: 40),
      method: .trustedPlatformModule(
        KeybagRecord.PasscodeDerivation(logN: 16, r: 8, p: 1, salt: [UInt8](repeating: 1, count: 32)),
        sealedObject: [UInt8](repeating: 1, count: 1024)))
    while record.bytes.count <= KeybagRecord.longestWithoutHosts { record.protectors.append(way) }
    record.protectors.removeLast()
    while record.bytes.count + 13 <= KeybagRecord.longestWithoutHosts {
      record.formerKeys.append(KeybagRecord.FormerKey(id: try record.newKeyID(), end: .rotated, time: 1))
    }
    let ids = record.classEntries.filter { $0.fileClass == key.fileClass }.map(\.id)
    record.end(.erased) { $0.fileClass == key.fileClass }
    record.insert(key.renamed(try record.newKeyID()))
    record.trimFormerKeys()
    #expect(record.bytes.count <= KeybagRecord.longestWithoutHosts)
    #expect(record.formerKeys.suffix(ids.count).map(\.id) == ids)
  }

  // MARK: Completion after a crash

  /// Killed between the keybag and its second copy. Files may be under the new key as soon as the store is mounted.
  @Test func aSecondCopyWithoutNewKeysIsMadeWhole() throws {
    let stored = try StoredKeybag()
    let change = try opened(stored).changed(by: .beginRotation(.standard))
    try stored.file.commit(change)
    try stored.directory.write(".protectfs/keybag.previous", stored.keybag.bytes)
    try stored.file.repair(current(stored), deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == stored.file.read())
  }

  @Test func aDamagedSecondCopyIsMadeWhole() throws {
    let stored = try StoredKeybag()
    var bytes = stored.keybag.bytes
    bytes[300] ^= 1
    try stored.directory.write(".protectfs/keybag.previous", bytes)
    try stored.file.repair(stored.keybag, deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == stored.keybag.bytes)
  }

  /// The second copy from before a reset can undo it. It lacks the new keys, but has others.
  @Test func theOneBeforeAResetIsLeft() throws {
    let stored = try StoredKeybag()
    try reset(stored)
    try stored.file.repair(current(stored), deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == stored.keybag.bytes)
  }
}

extension KeybagRecord.ClassEntry {
  fileprivate func renamed(_ id: ClassKeyID) -> KeybagRecord.ClassEntry {
    var entry = self
    entry.id = id
    return entry
  }
}
