import Cryptography
import ProtectfsPolicy
import StoreFormat
import Testing

@testable import KeyManagement

/// Keybags of one store that diverged: a copy of the store was rotated too, or a keybag was put back from elsewhere. No
/// change of one loses a key that only the other has.
@Suite("Keybags that went apart") final class ReunionTests {
  private let stored: StoredKeybag
  private static let keybag = ".protectfs/keybag"

  init() throws {
    stored = try StoredKeybag()
  }

  private func current() throws -> Keybag { try Keybag(parsing: stored.file.read(), deviceKey: stored.deviceKey) }

  private func previous() throws -> Keybag {
    try Keybag(parsing: stored.file.readPrevious(), deviceKey: stored.deviceKey)
  }

  private func opened() throws -> OpenKeybag {
    try stored.file.open(current(), with: .passcode(stored.store.passcode()), deviceKey: stored.deviceKey)
  }

  private func addKey() throws {
    let change = try #require(try Box(opened().beginningRotation(of: .standard)))
    try stored.file.commit(change.take())
  }

  private func rotate() throws {
    try addKey()
    let keys = try current().keyIDs(of: .standard)
    try stored.file.commit(opened().finishingRotation(of: .standard, from: keys))
  }

  private func exported() throws -> [UInt8] {
    try opened().exported(for: "backup".secret, cost: TestStore.cost).bytes
  }

  /// Puts an exported keybag in the store's place.
  private func replace(with exported: [UInt8]) throws -> Keybag {
    let found = stored.file.authenticKeybags { try? Keybag(parsing: $0, deviceKey: stored.deviceKey) }
    let new = try Keybag.open(exported: exported, backupPasscode: "backup".secret)
      .replacement(over: found.all.map(\.record), passcode: stored.store.passcode(), cost: TestStore.cost)
    try stored.file.replace(found, with: new.keybag, new.effaceable)
    return new.keybag
  }

  /// The keybag from before a rotation is put back during the rotation. Its key is not the one that files were wrapped
  /// under.
  @Test func aRotationEndsOnTheKeyThatItWrappedUnder() throws {
    let old = try stored.file.read()
    try addKey()
    let keys = try current().keyIDs(of: .standard)
    try stored.directory.write(Self.keybag, old)
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) {
      _ = try opened().finishingRotation(of: .standard, from: keys)
    }
  }

  /// A change overwrites the second copy, which alone has the newest key.
  @Test func whatTheSecondCopyHasIsTakenIn() throws {
    let old = try stored.file.read()
    #expect(try Box(stored.file.reuniting(opened())) == nil)
    try addKey()
    let keys = try current().keyIDs(of: .standard)
    #expect(try Box(stored.file.reuniting(opened())) == nil)
    try stored.directory.write(Self.keybag, old)
    let change = try #require(try Box(stored.file.reuniting(opened())))
    try stored.file.commit(reunion: change.take())
    #expect(try current().keyIDs(of: .standard) == [keys[1], keys[0]], "the current key is another one")
    #expect(try previous() == current())
    _ = try opened().classKeys()
  }

  /// Killed after the second copy is complete. The next change does the same again.
  @Test func aReunionThatWasCutShortIsMadeAgain() throws {
    let old = try stored.file.read()
    try addKey()
    let keys = try current().keyIDs(of: .standard)
    try stored.directory.write(Self.keybag, old)
    let change = try #require(try Box(stored.file.reuniting(opened())))
    try stored.file.commit(reunion: change.take())
    try stored.directory.write(Self.keybag, old)
    try stored.file.settle(current(), deviceKey: stored.deviceKey)
    let again = try #require(try Box(stored.file.reuniting(opened())))
    try stored.file.commit(reunion: again.take())
    #expect(try current().keyIDs(of: .standard) == [keys[1], keys[0]])
  }

  /// An ended key stays ended, even if the second copy has another key that is adopted.
  @Test func whatWasEndedDoesNotComeBack() throws {
    try addKey()
    let second = try stored.file.readPrevious()
    let erased = try current().keyIDs(of: .complete)
    let lost = try current().keyIDs(of: .standard).last
    // As if another copy of the store, without the new key, had ended a key under the same secret.
    let keybagKey = try stored.open(.passcode(stored.store.passcode())).keybagKey.copy()
    var record = stored.keybag.record
    record.end(.erased) { $0.fileClass == .complete }
    record.insert(
      try Keybag.newClassEntry(
        .complete, id: record.newKeyID(), keybagKey, stored.deviceKey, stored.new.effaceable, record.storeID))
    let diverged = try Keybag(sealing: record, keybagKey: keybagKey, deviceKey: stored.deviceKey)
    try stored.directory.write(Self.keybag, diverged.bytes)
    #expect(try stored.file.readPrevious() == second)
    let change = try #require(try Box(stored.file.reuniting(opened())))
    try stored.file.commit(reunion: change.take())
    #expect(try current().keyIDs(of: .standard).contains { $0 == lost })
    #expect(try erased.allSatisfy(current().isRevoked))
  }

  /// After a reset another keybag key opens the keybag. The second copy can undo the reset, until the keybag is next
  /// changed.
  @Test func whatAnotherKeybagKeyOpensIsLeft() throws {
    let keybag = try current()
    let reset = try keybag.resetting(
      passcode: stored.store.passcode(), deviceKey: stored.deviceKey,
      effaceable: stored.file.effaceableSecret(of: keybag), cost: TestStore.cost)
    try stored.file.commit(reset.change)
    #expect(try Box(stored.file.reuniting(opened())) == nil)
    #expect(try current().record.formerKeys.allSatisfy { $0.end == .reset })
  }

  /// The keybag and its secret are restored from a backup without the second copy, whose secret is then missing.
  @Test func aSecondCopyWithoutItsSecretIsLeft() throws {
    let (keybag, secret) = try (stored.file.read(), stored.directory.read(".protectfs/effaceable"))
    try rotate()
    let newer = try stored.file.readPrevious()
    try stored.directory.write(Self.keybag, keybag)
    try stored.directory.write(".protectfs/effaceable", secret)
    #expect(try !stored.file.opens(previous()))
    try stored.file.settle(current(), deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == newer)
  }

  /// A key that was rotated away does not become current again, however often an old export is imported.
  @Test func anOldExportMakesNoOldKeyCurrent() throws {
    let old = try exported()
    let first = try current().keyIDs(of: .standard)
    try rotate()
    for _ in 0..<3 {
      let keys = try replace(with: old).keyIDs(of: .standard)
      #expect(keys.count == 2 && keys.first == first.first)
      #expect(try previous().keyIDs(of: .complete) == current().keyIDs(of: .complete))
    }
  }

  /// An export from after a rotation is imported into a copy of the store from before it. Files there are not lost.
  @Test func whatTheReplacedKeybagHasIsNotCalledRevoked() throws {
    let (keybag, secret) = try (stored.file.read(), stored.directory.read(".protectfs/effaceable"))
    let first = try #require(current().keyIDs(of: .standard).first)
    try rotate()
    let new = try exported()
    #expect(try current().isRevoked(first))
    try stored.directory.write(Self.keybag, keybag)
    try stored.directory.write(".protectfs/keybag.previous", keybag)
    try stored.directory.write(".protectfs/effaceable", secret)
    #expect(try !replace(with: new).isRevoked(first))
    #expect(try previous().keyIDs(of: .standard) == [first])
  }

  /// A replacement that no parser would accept is not written.
  @Test func aReplacementHasRoom() throws {
    let opened = try opened()
    let whole = try Keybag.open(exported: exported(), backupPasscode: "backup".secret)
    var record = whole.keybag.record
    while record.classEntries.count < 64 {
      record.insert(
        try Keybag.newClassEntry(
          .complete, id: record.newKeyID(), whole.keybagKey, whole.deviceKey, .absent(), record.storeID))
    }
    let full = try Keybag(sealing: record, keybagKey: whole.keybagKey, deviceKey: whole.deviceKey)
    let other = try Keybag.open(exported: full.bytes, backupPasscode: "backup".secret)
    #expect(throws: KeyManagementError.keybagFull) {
      _ = try other.replacement(over: [opened.keybag.record], passcode: "new".secret, cost: TestStore.cost)
    }
  }
}
