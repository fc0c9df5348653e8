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

  /// Whether the second copy had keys that were taken in now.
  private func isUnited() throws -> Bool {
    switch try stored.file.unite(opened()) {
    case .none: return false
    case .some(let applied):
      #expect(applied.failure == nil)
      return true
    }
  }

  private func addKey() throws {
    let change = try opened().changed(by: .beginRotation(.standard))
    try stored.file.commit(change)
  }

  private func rotate() throws {
    try addKey()
    let keys = try current().keyIDs(of: .standard)
    try stored.file.commit(opened().changed(by: .finishRotation(.standard, from: keys)))
  }

  private func exported() throws -> [UInt8] {
    try opened().exported(for: "backup".secret, cost: TestStore.cost).bytes
  }

  /// Puts an exported keybag in the store's place.
  private func replace(with exported: [UInt8]) throws -> Keybag {
    let found = try stored.file.authenticKeybags(of: stored.keybag.storeID, stored.deviceKey)
    let new = try Keybag.open(exported: exported, backupPasscode: "backup".secret)
      .replacement(over: found, passcode: stored.store.passcode(), cost: TestStore.cost)
    try stored.file.commit(new.change)
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
      _ = try opened().changed(by: .finishRotation(.standard, from: keys))
    }
  }

  /// A change overwrites the second copy, which alone has the newest key.
  @Test func whatTheSecondCopyHasIsTakenIn() throws {
    let old = try stored.file.read()
    #expect(try !isUnited())
    try addKey()
    let keys = try current().keyIDs(of: .standard)
    #expect(try !isUnited())
    try stored.directory.write(Self.keybag, old)
    #expect(try isUnited())
    #expect(try current().keyIDs(of: .standard) == [keys[1], keys[0]], "the current key is another one")
    #expect(try previous() == current())
    _ = try opened().heldKeys()
  }

  /// Killed after the second copy is complete. The next change does the same again.
  @Test func aReunionThatWasCutShortIsMadeAgain() throws {
    let old = try stored.file.read()
    try addKey()
    let keys = try current().keyIDs(of: .standard)
    try stored.directory.write(Self.keybag, old)
    #expect(try isUnited())
    try stored.directory.write(Self.keybag, old)
    try stored.file.repair(current(), deviceKey: stored.deviceKey)
    #expect(try isUnited())
    #expect(try current().keyIDs(of: .standard) == [keys[1], keys[0]])
  }

  /// An ended key stays ended, even if the second copy has another key that is adopted.
  @Test func whatWasEndedDoesNotComeBack() throws {
    try addKey()
    let second = try stored.file.readPrevious()
    let erased = try current().keyIDs(of: .complete)
    let lost = try current().keyIDs(of: .standard).last
    // As if another copy of the store, without the new key, had ended a key under the same secret.
    let opened = try stored.open(.passcode(stored.store.passcode()))
    var record = stored.keybag.record
    record.end(.erased) { $0.fileClass == .complete }
    try opened.keys.addKey(of: .complete, to: &record)
    let diverged = try opened.keys.keybag(of: record)
    try stored.directory.write(Self.keybag, diverged.bytes)
    #expect(try stored.file.readPrevious() == second)
    #expect(try isUnited())
    #expect(try current().keyIDs(of: .standard).contains { $0 == lost })
    #expect(try erased.allSatisfy(current().isRetired))
  }

  /// After a reset another keybag key opens the keybag. The second copy can undo the reset, until the keybag is next
  /// changed.
  @Test func whatAnotherKeybagKeyOpensIsLeft() throws {
    let keybag = try current()
    let reset = try keybag.resetting(
      passcode: stored.store.passcode(), deviceKey: stored.deviceKey,
      effaceable: stored.file.effaceableSecret(of: keybag), cost: TestStore.cost)
    try stored.file.commit(reset.change)
    #expect(try !isUnited())
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
    try stored.file.repair(current(), deviceKey: stored.deviceKey)
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
  @Test func whatTheReplacedKeybagHasIsNotCalledRetired() throws {
    let (keybag, secret) = try (stored.file.read(), stored.directory.read(".protectfs/effaceable"))
    let first = try #require(current().keyIDs(of: .standard).first)
    try rotate()
    let new = try exported()
    #expect(try current().isRetired(first))
    try stored.directory.write(Self.keybag, keybag)
    try stored.directory.write(".protectfs/keybag.previous", keybag)
    try stored.directory.write(".protectfs/effaceable", secret)
    #expect(try !replace(with: new).isRetired(first))
    #expect(try previous().keyIDs(of: .standard) == [first])
  }

  /// Keys of two keybags that do not fit into one do not keep a class from being erased; those of others stay where
  /// they are.
  @Test(arguments: [true, false]) func anErasureNeedsNoUnion(isUnderOneSecret: Bool) throws {
    let first = try opened()
    let otherSecret = isUnderOneSecret ? stored.new.change.secret.copy() : try EffaceableSecret()
    let others = first.keys.with(otherSecret.copy())
    var record = stored.keybag.record
    let start = record.classEntries
    for _ in 0..<40 { try first.keys.addKey(of: .standard, to: &record) }
    let keybag = try first.keys.keybag(of: record)
    record.classEntries = try others.rewrapped(start, from: first.keys)
    for _ in 0..<40 { try others.addKey(of: .completeUnlessOpen, to: &record) }
    for _ in 0..<3 { try others.addKey(of: .complete, to: &record) }
    let second = try others.keybag(of: record)
    try stored.directory.write(Self.keybag, keybag.bytes)
    try stored.directory.write(".protectfs/keybag.previous", second.bytes)
    if !isUnderOneSecret {
      try EffaceableStorage(in: stored.file.directory)
        .write(otherSecret, keeping: keybag.record.effaceableIdentifier, of: keybag.storeID)
    }
    let opened = try stored.file.open(
      keybag, with: .recoveryKey(stored.new.recoveryKey.text()), deviceKey: stored.deviceKey)
    #expect(throws: KeyManagementError.keybagFull) { _ = try stored.file.apply(.beginRotation(.complete), to: opened) }
    let erased = try stored.file.apply(.eraseClass(.complete), to: opened)
    #expect(erased.failure == nil)
    #expect(try current() == erased.keybag)
    #expect(try stored.file.opens(previous()))
    // Each has the keys of other classes that it had, and none that were erased.
    let other = try opened.refreshed(previous(), in: stored.file)
    for (after, before) in [(erased.keybag, keybag), (other.keybag, second)] {
      for fileClass in ProtectionClass.allCases where fileClass != .complete {
        #expect(after.keyIDs(of: fileClass) == before.keyIDs(of: fileClass))
      }
      #expect(before.keyIDs(of: .complete).allSatisfy(after.isRetired))
      #expect(after.keyIDs(of: .complete) == erased.keybag.keyIDs(of: .complete))
    }
    #expect(try other.heldKeys(of: ProtectionClass.allCases)[.completeUnlessOpen]?.count == 41)
    #expect(throws: KeyManagementError.effaceableSecretMissing) { _ = try stored.file.effaceableSecret(of: keybag) }
  }

  /// A replacement that no parser would take is not written.
  @Test func aReplacementHasRoom() throws {
    let opened = try opened()
    let whole = try Keybag.open(exported: exported(), backupPasscode: "backup".secret)
    var record = whole.keybag.record
    while record.classEntries.count < 64 {
      record.insert(
        try whole.keys.newEntry(of: .complete, id: record.newKeyID()))
    }
    let full = try Keybag(authenticating: record, keybagKey: whole.keys.keybagKey, deviceKey: whole.keys.deviceKey)
    let other = try Keybag.open(exported: full.bytes, backupPasscode: "backup".secret)
    #expect(throws: KeyManagementError.keybagFull) {
      _ = try other.replacement(
        over: AuthenticKeybags(current: opened.keybag, in: stored.file, bytes: nil), passcode: "new".secret,
        cost: TestStore.cost)
    }
  }
}
