import Cryptography
import DataProtectionCore
import Foundation
import StoreFormat
import Testing

@testable import KeyManagement

/// What takes the place of a keybag and of its second copy, and what number a class key has then.
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
    let change = try #require(try Box(opened(stored).beginningRotation(of: .standard)))
    try stored.file.commit(change.take())
    try stored.file.commit(opened(stored).finishingRotation(of: .standard))
  }

  /// As the commands do it: what only the second copy knows is taken over first.
  private func change(
    _ stored: borrowing StoredKeybag, _ make: (borrowing OpenKeybag) throws -> KeybagChange
  ) throws {
    if let first = try Box(stored.file.outnumbering(opened(stored))) { try stored.file.commit(first.take()) }
    try stored.file.commit(make(opened(stored)))
  }

  private func reset(_ stored: borrowing StoredKeybag) throws {
    let keybag = try current(stored)
    let reset = try keybag.resetting(
      beyond: stored.file.secondCopy(of: keybag, stored.deviceKey), passcode: stored.store.passcode(),
      deviceKey: stored.deviceKey, effaceable: stored.file.effaceableSecret(of: keybag), cost: TestStore.cost)
    try stored.file.commit(reset.change)
  }

  private func restore(_ stored: borrowing StoredKeybag) throws {
    let previous = try Keybag(parsing: stored.file.readPrevious(), deviceKey: stored.deviceKey)
    try stored.file.restore(previous, over: found(stored))
  }

  private func found(_ stored: borrowing StoredKeybag) -> AuthenticKeybags {
    stored.file.authenticKeybags { try? Keybag(parsing: $0, deviceKey: stored.deviceKey) }
  }

  /// Imports an exported keybag in place of the store's.
  private func replace(_ stored: borrowing StoredKeybag, with exported: [UInt8]) throws -> Keybag {
    let backup = try Keybag.open(exported: exported, backupPasscode: "backup".secret)
    let found = found(stored)
    let new = try backup.replacement(
      over: found.all.map(\.record), passcode: "new".secret, cost: TestStore.cost)
    try stored.file.replace(found, with: new.keybag, new.effaceable)
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

  /// The second copy alone has the newest keys. It stays, with its secret, and undoes the import.
  @Test(arguments: Damage.allCases) func aGoodSecondCopyOutlivesAnImport(_ damage: Damage) throws {
    let stored = try StoredKeybag()
    let backup = try exported(stored)
    try rotate(stored)
    let good = try stored.file.readPrevious()
    try self.damage(stored, damage)
    #expect(!found(stored).currentOpens && found(stored).previousOpens)

    let new = try replace(stored, with: backup)
    #expect(try stored.file.readPrevious() == good)
    #expect(new.generations(of: .standard) == [1, 3], "no number twice")
    for _ in 0..<2 {
      try stored.file.settle(new, deviceKey: stored.deviceKey)
      #expect(try stored.file.readPrevious() == good)
      #expect(found(stored).previousOpens && found(stored).currentOpens)
    }
    try restore(stored)
    #expect(try stored.file.read() == good)
    #expect(try stored.file.readPrevious() == new.bytes)
    _ = try opened(stored).classKeys()
    try stored.file.settle(current(stored), deviceKey: stored.deviceKey)
    #expect(found(stored).previousOpens)
  }

  /// Of two that open, the one with keys that the new one lacks is kept.
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

  /// One that an import put aside and that has nothing more is made a copy, and its secret overwritten.
  @Test func whatHasNothingMoreIsNotKept() throws {
    let stored = try StoredKeybag()
    let backup = try exported(stored)
    let new = try replace(stored, with: backup)
    #expect(try stored.file.readPrevious() == stored.keybag.bytes)
    try stored.file.settle(new, deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == new.bytes)
    #expect(throws: KeyManagementError.effaceableSecretMissing) {
      _ = try stored.file.effaceableSecret(of: stored.keybag)
    }
  }

  /// Copies of a store that have both rotated a class have each a key of their own under the same number.
  @Test func whatHasAnotherKeyUnderOneNumberIsKept() throws {
    let stored = try StoredKeybag()
    try rotate(stored)
    let whole = try Keybag.open(exported: exported(stored), backupPasscode: "backup".secret)
    var record = whole.keybag.record
    let place = try #require(record.classEntries.firstIndex { $0.fileClass == .standard && $0.generation == 2 })
    record.classEntries[place] = try Keybag.newClassEntry(
      .standard, generation: 2, whole.keybagKey, whole.deviceKey, .absent(), whole.keybag.storeID)
    let other = try Keybag(sealing: record, keybagKey: whole.keybagKey, deviceKey: whole.deviceKey)
    let old = try current(stored)
    #expect(other.lacking(keysOf: old).isEmpty)
    #expect(other.mayLack(keysOf: old).map(\.fileClass) == [.standard])
    let new = try replace(stored, with: other.bytes)
    try stored.file.settle(new, deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == old.bytes)
    _ = try stored.file.effaceableSecret(of: old)
  }

  /// A second copy that cannot be read now may have keys that are nowhere else.
  @Test func whatCannotBeReadIsKept() throws {
    let stored = try StoredKeybag()
    let before = try exported(stored)
    try reset(stored)
    let new = try replace(stored, with: before)
    let previous = try stored.file.readPrevious()
    let opened = try Keybag(parsing: previous, deviceKey: stored.deviceKey)
    // Read by a symbolic link, which is not followed.
    let path = stored.directory.path
    try FileManager.default.moveItem(atPath: path + "/.protectfs/keybag.previous", toPath: path + "/elsewhere")
    try FileManager.default.createSymbolicLink(
      atPath: path + "/.protectfs/keybag.previous", withDestinationPath: "../elsewhere")
    #expect(throws: KeyManagementError.previousKeybagKept(.tooManySymbolicLinkLevels)) {
      try stored.file.settle(new, deviceKey: stored.deviceKey)
    }
    _ = try stored.file.effaceableSecret(of: opened)
  }

  @Test func anotherKeybagMeanwhileIsNotReplaced() throws {
    let stored = try StoredKeybag()
    let found = found(stored)
    try rotate(stored)
    let now = try stored.file.read()
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) {
      try stored.file.replace(found, with: stored.keybag, .absent())
    }
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

  // MARK: Numbers of class keys

  /// The keybag after a reset has later numbers than the one that is put back: they are not given again.
  @Test func noNumberIsGivenTwiceAfterARestoration() throws {
    let stored = try StoredKeybag()
    try reset(stored)
    try restore(stored)
    #expect(try current(stored).generations(of: .standard) == [1])
    try stored.file.settle(current(stored), deviceKey: stored.deviceKey)
    // A change that makes no class key overwrites the second copy too.
    try change(stored) { try $0.adding(.keyFile(SecretBytes(randomCount: 32)), label: "a file") }
    #expect(try current(stored).generations(of: .standard) == [1, 3])
    #expect(try current(stored).generations(of: .none) == [1])
    try rotate(stored)
    #expect(try current(stored).generations(of: .standard) == [4])
  }

  @Test func noNumberIsGivenTwiceByErasuresAndResets() throws {
    let stored = try StoredKeybag()
    try reset(stored)
    try restore(stored)
    try change(stored) { try $0.erasing(.complete) }
    #expect(try current(stored).generations(of: .complete) == [4])
    #expect(try current(stored).generations(of: .standard) == [1, 3])

    let other = try StoredKeybag()
    try reset(other)
    try restore(other)
    try reset(other)
    #expect(try current(other).generations(of: .standard) == [3])
    #expect(try current(other).generations(of: .none) == [1])
  }

  // MARK: Settling

  /// Killed between the keybag and its second copy: files may be under the new key as soon as the store is mounted.
  @Test func aSecondCopyWithoutNewKeysIsMadeWhole() throws {
    let stored = try StoredKeybag()
    let change = try #require(try Box(opened(stored).beginningRotation(of: .standard)))
    try stored.file.commit(change.take())
    try stored.directory.write(".protectfs/keybag.previous", stored.keybag.bytes)
    try stored.file.settle(current(stored), deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == stored.file.read())
  }

  @Test func aDamagedSecondCopyIsMadeWhole() throws {
    let stored = try StoredKeybag()
    var bytes = stored.keybag.bytes
    bytes[300] ^= 1
    try stored.directory.write(".protectfs/keybag.previous", bytes)
    try stored.file.settle(stored.keybag, deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == stored.keybag.bytes)
  }

  /// The one before a reset undoes it; it lacks the new keys, but has others.
  @Test func theOneBeforeAResetIsLeft() throws {
    let stored = try StoredKeybag()
    try reset(stored)
    try stored.file.settle(current(stored), deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == stored.keybag.bytes)
  }
}
