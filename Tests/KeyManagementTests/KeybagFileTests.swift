import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage
import TestVectors
import Testing

@testable import KeyManagement

@Suite("The keybag's file") struct KeybagFileTests {
  /// A keybag after a change of its passcode to the same passcode.
  private func changed(
    _ keybag: Keybag, _ effaceable: borrowing EffaceableSecret, _ store: TestStore
  ) throws -> KeybagChange {
    try keybag.open(passcode: store.passcode(), deviceKey: store.volumeKey(), effaceable: effaceable.copy())
      .changed(by: .changePasscode(store.passcode()), cost: TestStore.cost)
  }

  @Test func isReplacedBySuccessorsOnly() throws {
    let directory = try TemporaryDirectory()
    #expect(throws: KeyManagementError.keybagMissing) { _ = try KeybagFile(backing: directory.descriptor) }
    try KeybagFile.makeDirectory(in: directory.descriptor)
    try KeybagFile.makeDirectory(in: directory.descriptor)
    let file = try KeybagFile(backing: directory.descriptor)
    #expect(throws: KeyManagementError.keybagMissing) { _ = try file.read() }

    let store = try TestStore.read()
    let new = try store.created()
    let first = new.keybag
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) {
      try file.commit(changed(first, new.change.secret, store))
    }
    try file.commit(new.change)
    #expect(try file.read() == first.bytes)
    #expect(try file.readPrevious() == first.bytes)

    let opened = try file.open(first, with: .passcode(store.passcode()), deviceKey: store.volumeKey())
    let added = try opened.changed(
      by: .addProtector(NewProtector(.keyFile(SecretBytes(randomCount: 32)), label: "a file")))
    try file.commit(added)
    #expect(try file.read() == added.keybag.bytes)
    #expect(try file.readPrevious() == first.bytes)
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) { try file.commit(added) }
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) {
      try file.commit(changed(first, new.change.secret, store))
    }
    #expect(try file.read() == added.keybag.bytes)
    #expect(directory.names(in: ".protectfs") == ["effaceable", "keybag", "keybag.previous"])
  }

  /// A new passcode leaves nothing that the old one opens: neither a second copy nor a secret for an older keybag.
  @Test func whatRetiresLeavesNothing() throws {
    let stored = try StoredKeybag()
    let old = try Array(stored.directory.read(".protectfs/effaceable"))
    #expect(try stored.file.hasBothEffaceableCopies(of: stored.keybag))

    let change = try changed(stored.keybag, stored.new.change.secret, stored.store)
    try stored.file.commit(change)
    #expect(try stored.file.read() == change.keybag.bytes)
    #expect(try stored.file.readPrevious() == change.keybag.bytes)
    #expect(throws: KeyManagementError.effaceableSecretMissing) {
      _ = try stored.file.effaceableSecret(of: stored.keybag)
    }
    #expect(try stored.file.hasBothEffaceableCopies(of: change.keybag))
    let secret = old[..<32]
    #expect(try !Array(stored.directory.read(".protectfs/effaceable")).contains(secret))
    #expect(throws: KeyManagementError.effaceableSecretMissing) {
      _ = try stored.open(.passcode(stored.store.passcode()))
    }
    _ = try stored.file.open(change.keybag, with: .passcode(stored.store.passcode()), deviceKey: stored.deviceKey)
      .heldKeys()
  }

  /// A change cut short after the keybag took its place is finished by whoever has the store next.
  @Test func repairing() throws {
    let stored = try StoredKeybag()
    let before = try stored.directory.read(".protectfs/effaceable")
    let change = try changed(stored.keybag, stored.new.change.secret, stored.store)
    try stored.file.commit(change)
    // The state after step 2: both secrets, and the old second copy.
    var both = try stored.directory.read(".protectfs/effaceable")
    both.replaceSubrange(0..<32, with: before[0..<32])
    both.replaceSubrange(4096..<4128, with: before[4096..<4128])
    try stored.directory.write(".protectfs/effaceable", both)
    try stored.directory.write(".protectfs/keybag.previous", stored.keybag.bytes)
    _ = try stored.file.effaceableSecret(of: stored.keybag)

    try stored.file.repair(change.keybag, deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == change.keybag.bytes)
    #expect(throws: KeyManagementError.effaceableSecretMissing) {
      _ = try stored.file.effaceableSecret(of: stored.keybag)
    }
    _ = try stored.file.effaceableSecret(of: change.keybag)

    // The state after step 1: a secret that no keybag has yet.
    var early = try stored.directory.read(".protectfs/effaceable")
    early.replaceSubrange(0..<32, with: [UInt8](repeating: 7, count: 32))
    try stored.directory.write(".protectfs/effaceable", early)
    try stored.file.repair(change.keybag, deviceKey: stored.deviceKey)
    #expect(try Array(stored.directory.read(".protectfs/effaceable")[..<32]) == [UInt8](repeating: 0, count: 32))
    _ = try stored.file.effaceableSecret(of: change.keybag)
  }

  /// Either copy of the effaceable secret is sufficient.
  @Test func effaceableCopies() throws {
    let stored = try StoredKeybag()
    let whole = try stored.directory.read(".protectfs/effaceable")
    for place in [0, 4096] {
      var damaged = whole
      damaged[place] ^= 1
      try stored.directory.write(".protectfs/effaceable", damaged)
      #expect(try !stored.file.hasBothEffaceableCopies(of: stored.keybag))
      _ = try stored.open(.passcode(stored.store.passcode())).heldKeys()
      try stored.file.restoreEffaceableCopies(of: stored.keybag)
      #expect(try stored.directory.read(".protectfs/effaceable") == whole)
    }
    var damaged = whole
    damaged[0] ^= 1
    damaged[4096] ^= 1
    try stored.directory.write(".protectfs/effaceable", damaged)
    #expect(throws: KeyManagementError.effaceableSecretMissing) {
      _ = try stored.file.effaceableSecret(of: stored.keybag)
    }
  }

  @Test func foreignStoresAreNotReplaced() throws {
    let directory = try TemporaryDirectory()
    try KeybagFile.makeDirectory(in: directory.descriptor)
    let file = try KeybagFile(backing: directory.descriptor)
    let store = try TestStore.read()
    try directory.write(".protectfs/keybag", store.keybag.bytes)
    let other = try Keybag.create(
      passcode: "1".secret, deviceKey: VolumeDeviceKey(SecretBytes(randomCount: 32)), storeID: .random(),
      cost: TestStore.cost)
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) { try file.commit(other.change) }
    try file.commit(changed(store.parsed(), .absent(), store))
    #expect(try file.readPrevious() == file.read())

    try directory.write(".protectfs/keybag", [1, 2, 3])
    #expect(throws: KeyManagementError.self) { try file.commit(other.change) }
    #expect(try file.read() == [1, 2, 3])
  }

  @Test func hugeFilesAreReadInPart() throws {
    let directory = try TemporaryDirectory()
    try KeybagFile.makeDirectory(in: directory.descriptor)
    try directory.write(".protectfs/keybag", [UInt8](repeating: 0, count: 100_000))
    let file = try KeybagFile(backing: directory.descriptor)
    #expect(try file.read().count == KeybagRecord.longest + 1)
  }

  /// A fifo in place of the keybag must not make the reader wait.
  @Test func otherTypesAreRefused() throws {
    let directory = try TemporaryDirectory()
    try KeybagFile.makeDirectory(in: directory.descriptor)
    try directory.descriptor.makeNode(".protectfs/keybag", mode: 0o010600, device: 0)
    let file = try KeybagFile(backing: directory.descriptor)
    #expect(throws: KeyManagementError.keybagUnreadable(.invalidArgument)) { _ = try file.read() }
  }
}
