import Cryptography
import DataProtectionCore
import StoreFormat
import Testing

@testable import KeyManagement

@Suite("Keys of another keybag") struct ImportedKeysTests {
  private let passcode = "backup"

  /// An exported keybag after an edit of its class entries, opened.
  private func exported(
    of opened: borrowing OpenKeybag, _ edit: (inout [KeybagRecord.ClassEntry], borrowing SecretBytes) throws -> Void
  ) throws -> OpenKeybag {
    let whole = try Keybag.open(
      exported: opened.exported(for: passcode.secret, cost: TestStore.cost).bytes, backupPasscode: passcode.secret)
    var record = whole.keybag.record
    try edit(&record.classEntries, whole.keybagKey)
    let keybag = try Keybag(sealing: record, keybagKey: whole.keybagKey, deviceKey: whole.deviceKey)
    return try Keybag.open(exported: keybag.bytes, backupPasscode: passcode.secret)
  }

  private func position(
    of fileClass: ProtectionClass, in entries: [KeybagRecord.ClassEntry]
  ) throws -> Int {
    try #require(entries.firstIndex { $0.fileClass == fileClass })
  }

  @Test func theSameKeysAreLeftAlone() throws {
    let stored = try StoredKeybag()
    let opened = try stored.open(.passcode(stored.store.passcode()))
    let other = try exported(of: opened) { (_, _) in }
    let change = try opened.adding(keysOf: other)
    #expect(change.keybag.record.classEntries == opened.keybag.record.classEntries)
  }

  /// Stores that were one, and have each made a new key since: to take either of them would lose the files of the other.
  @Test func anotherKeyUnderOneNumberIsRefused() throws {
    let stored = try StoredKeybag()
    let opened = try stored.open(.passcode(stored.store.passcode()))
    for fileClass in ProtectionClass.allCases {
      let other = try exported(of: opened) { (entries, keybagKey) in
        let place = try position(of: fileClass, in: entries)
        entries[place] = try Keybag.newClassEntry(
          fileClass, generation: entries[place].generation, keybagKey, stored.deviceKey, .absent(),
          stored.keybag.storeID)
      }
      #expect(throws: KeyManagementError.conflictingKeys(fileClass)) { _ = try opened.adding(keysOf: other) }
    }
  }

  /// As the refusal says: once the files here are under a key of another number, the other's key has room.
  @Test func aRotationMakesRoomForAnotherKey() throws {
    let stored = try StoredKeybag()
    let other = try exported(of: stored.open(.passcode(stored.store.passcode()))) { (entries, keybagKey) in
      let place = try position(of: .standard, in: entries)
      entries[place] = try Keybag.newClassEntry(
        .standard, generation: entries[place].generation, keybagKey, stored.deviceKey, .absent(), stored.keybag.storeID)
    }
    let opened = try stored.open(.passcode(stored.store.passcode()))
    let begun = try #require(try Box(opened.beginningRotation(of: .standard)))
    let rotating = opened.following(begun.take())
    let rotated = rotating.following(try rotating.finishingRotation(of: .standard))
    #expect(rotated.keybag.generations(of: .standard) == [2])
    #expect(try rotated.adding(keysOf: other).keybag.generations(of: .standard) == [1, 2])
  }

  /// One that was erased here comes back.
  @Test func erasedKeysComeBack() throws {
    let stored = try StoredKeybag()
    let opened = try stored.open(.passcode(stored.store.passcode()))
    let erased = opened.following(try opened.erasing(.complete))
    let change = try erased.adding(keysOf: try exported(of: opened) { (_, _) in })
    #expect(change.keybag.generations(of: .complete) == [1, 2])
    var keys = try erased.following(change).classKeys()
    var before = try opened.classKeys()
    #expect(keys.take(.complete) { ExposedKey($0) }.first == before.take(.complete) { ExposedKey($0) }.first)
  }
}
