import Cryptography
import ProtectfsPolicy
import StoreFormat
import Testing

@testable import KeyManagement

@Suite("Keys of another keybag") struct ImportedKeysTests {
  private let passcode = "backup"

  /// An exported keybag after an edit of its class entries, opened.
  private func exported(
    of opened: borrowing OpenKeybag, _ edit: (inout [KeybagRecord.ClassEntry], borrowing KeybagKeys) throws -> Void
  ) throws -> OpenKeybag {
    let whole = try Keybag.open(
      exported: opened.exported(for: passcode.secret, cost: TestStore.cost).bytes, backupPasscode: passcode.secret)
    var record = whole.keybag.record
    try edit(&record.classEntries, whole.keys)
    let keybag = try whole.keys.keybag(of: record)
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
    let change = try opened.adding(keysOf: other, .newKeys) { _ in true }
    #expect(change.keybag.record.classEntries == opened.keybag.record.classEntries)
  }

  /// Two copies of one store have each made a new key. Afterwards both stores have both keys, and each keeps its
  /// current one.
  @Test(arguments: ProtectionClass.allCases) func keysOfACopyComeBesideTheOwn(_ fileClass: ProtectionClass) throws {
    let stored = try StoredKeybag()
    let opened = try stored.open(.passcode(stored.store.passcode()))
    let other = try exported(of: opened) { (entries, keys) in
      let place = try position(of: fileClass, in: entries)
      entries[place] = try keys.newEntry(of: fileClass, id: opened.keybag.record.newKeyID())
    }
    let own = try #require(opened.keybag.keyIDs(of: fileClass).last)
    let others = try #require(other.keybag.keyIDs(of: fileClass).last)
    let change = try opened.adding(keysOf: other, .newKeys) { _ in true }
    #expect(change.keybag.keyIDs(of: fileClass) == [others, own])
    let wrapped = try opened.following(change).heldKeys(of: [fileClass])[fileClass]
    #expect(
      try wrapped?.map { $0.secret.exposed() }.first
        == other.heldKeys(of: [fileClass])[fileClass]?.first?.secret.exposed())
    #expect(throws: Never.self) { _ = try Keybag(parsing: change.keybag.bytes, deviceKey: stored.deviceKey) }
  }

  /// A key that was erased here comes back.
  @Test func erasedKeysComeBack() throws {
    let stored = try StoredKeybag()
    let opened = try stored.open(.passcode(stored.store.passcode()))
    let erased = opened.following(try opened.changed(by: .eraseClass(.complete)))
    let change = try erased.changed(by: .takeKeys(exported(of: opened) { (_, _) in }))
    #expect(
      change.keybag.keyIDs(of: .complete) == opened.keybag.keyIDs(of: .complete) + erased.keybag.keyIDs(of: .complete))
    #expect(change.keybag.record.formerKeys.isEmpty)
    let (keys, before) = (try erased.following(change).heldKeys().exposed(), try opened.heldKeys().exposed())
    #expect(keys[.complete]?.first == before[.complete]?.first)
  }
}
