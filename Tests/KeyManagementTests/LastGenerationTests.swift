import Cryptography
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import Testing

@testable import KeyManagement

/// Generations increase by one, but a keybag may have any generation: an unauthenticated one because an attacker wrote
/// it, an authentic one because its maker had the device key.
@Suite("The last generation") struct LastGenerationTests {
  let store: TestStore
  let keybag: Keybag

  init() throws {
    store = try TestStore.read()
    keybag = try store.parsed()
  }

  /// The vector's keybag after an edit, with a valid seal and tag.
  private func keybag(_ edit: (inout KeybagRecord) -> Void) throws -> Keybag {
    var record = keybag.record
    edit(&record)
    return try Keybag(
      authenticating: record, keybagKey: SecretBytes(store.keybagKey.bytes), deviceKey: store.volumeKey())
  }

  private func opened(_ keybag: Keybag) throws -> OpenKeybag {
    try keybag.open(recoveryKey: store.recoveryKey())
  }

  /// A keybag put in place behind a daemon's back must not crash the daemon at the next change.
  @Test(arguments: [UInt64.max, UInt64.max - 1, 1, 7]) func isNotFollowed(_ generation: UInt64) throws {
    let directory = try TemporaryDirectory()
    try KeybagFile.makeDirectory(in: directory.descriptor)
    let file = try KeybagFile(backing: directory.descriptor)
    var record = keybag.record
    record.generation = generation
    let planted = try directory.descriptor.open(".protectfs/keybag", [.writeOnly, .create], mode: 0o600)
    try planted.write(record.bytes)
    let change = try opened(keybag).changed(by: .removeProtector(keybag.protectors[0].id))
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) { try file.commit(change) }
    #expect(try file.read() == record.bytes)
  }

  @Test func hasNoNext() throws {
    let stored = try StoredKeybag()
    let last = try keybag { $0.generation = .max }
    let opened = try opened(last)
    #expect(throws: KeyManagementError.keybagFull) {
      _ = try opened.changed(by: .removeProtector(last.protectors[0].id))
    }
    #expect(throws: KeyManagementError.keybagFull) {
      _ = try last.resetting(passcode: store.passcode(), deviceKey: store.volumeKey(), effaceable: nil)
    }
    #expect(throws: KeyManagementError.keybagFull) {
      _ = try opened.replacement(
        over: AuthenticKeybags(current: last, in: stored.file, bytes: last.bytes), passcode: store.passcode(),
        cost: TestStore.cost)
    }
  }

  /// Whoever has the device key, but no secret, can write a keybag of the last generation. The store is erased all the
  /// same.
  @Test(arguments: [true, false]) func isErased(hasRoom: Bool) throws {
    let stored = try StoredKeybag()
    var record = stored.keybag.record
    record.generation = .max
    record.tag = try Keybag.tag(of: record, stored.deviceKey)
    try stored.directory.write(".protectfs/keybag", record.bytes)
    if !hasRoom { try stored.file.directory.makeDirectory("keybag.new", mode: 0o700) }
    let planted = try Keybag(parsing: record.bytes, deviceKey: stored.deviceKey)
    let erasure = try stored.file.erase(planted, deviceKey: stored.deviceKey)
    #expect(erasure.failure == nil)
    #expect(erasure.tombstone.generation == .max)
    #expect(try stored.file.read() == erasure.tombstone.bytes)
    #expect(try stored.file.readPrevious() == erasure.tombstone.bytes)
    #expect(try stored.directory.read(".protectfs/effaceable").allSatisfy { $0 == 0 })
    // An erasure without room that was cut short before the names were exchanged.
    try stored.directory.write(".protectfs/keybag", planted.bytes)
    #expect(stored.file.tombstone(of: planted, stored.deviceKey) == erasure.tombstone)
  }

  /// What an import takes the place of counts only where it is authentic.
  @Test func othersAreAuthentic() throws {
    let stored = try StoredKeybag()
    func found() throws -> AuthenticKeybags {
      try stored.file.authenticKeybags(of: stored.keybag.storeID, stored.deviceKey)
    }
    #expect(try found().all == [stored.keybag, stored.keybag])
    var record = stored.keybag.record
    record.generation = .max
    try stored.directory.write(".protectfs/keybag", record.bytes)
    #expect(try found().all == [stored.keybag])
    try stored.directory.write(".protectfs/keybag.previous", [])
    #expect(try found().all == [])
  }
}
