import ProtectfsIO
import StoreFormat
import Testing

@testable import KeyManagement

/// An erasure completes whatever cannot be written.
@Suite("Erased keybags") struct ErasedKeybagTests {
  enum SecondCopy: CaseIterable { case older, missing, sameFile }

  /// No new file can be written, so the existing ones are overwritten.
  @Test(arguments: SecondCopy.allCases) func withoutRoom(_ second: SecondCopy) throws {
    let stored = try StoredKeybag()
    let own = try stored.directory.descriptor.open(".protectfs", [.readOnly, .directory])
    if second != .older { try own.unlink("keybag.previous") }
    if second == .sameFile { try own.link("keybag", to: "keybag.previous", in: own) }
    try own.makeDirectory("keybag.new", mode: 0o700)
    let old = try own.open("keybag", [.readOnly])

    let tombstone = try erase(stored)
    #expect(try stored.file.read() == tombstone.bytes)
    if second != .missing { #expect(try stored.file.readPrevious() == tombstone.bytes) }
    #expect(try stored.directory.read(".protectfs/effaceable").allSatisfy { $0 == 0 })
    // The old place of the keybag is overwritten too.
    #expect(try old.readAll(limit: 1 << 16) == tombstone.bytes)
  }

  /// A keybag without an effaceable secret is overwritten as well.
  @Test func withoutRoomOrEffaceableSecret() throws {
    let stored = try StoredKeybag()
    var record = stored.keybag.record
    record.effaceableIdentifier = nil
    record.tag = try Keybag.tag(of: record, stored.deviceKey)
    let keybag = try Keybag(record, deviceKey: stored.deviceKey)
    for name in ["keybag", "keybag.previous"] { try stored.directory.write(".protectfs/" + name, keybag.bytes) }
    try stored.file.directory.makeDirectory("keybag.new", mode: 0o700)
    let old = try stored.file.directory.open("keybag", [.readOnly])

    let erasure = try stored.file.erase(keybag, deviceKey: stored.deviceKey)
    #expect(erasure.failure == nil)
    for bytes in [try stored.file.read(), try stored.file.readPrevious(), try old.readAll(limit: 1 << 16)] {
      #expect(bytes == erasure.tombstone.bytes)
    }
  }

  /// The second copy cannot be written to a new file. The secret and the copy are overwritten nevertheless.
  @Test func withoutRoomForTheSecondCopy() throws {
    let stored = try StoredKeybag()
    try stored.file.directory.makeDirectory("keybag.previous.new", mode: 0o700)
    let tombstone = try erase(stored)
    #expect(try stored.file.readPrevious() == tombstone.bytes)
    #expect(try stored.directory.read(".protectfs/effaceable").allSatisfy { $0 == 0 })
  }

  /// Interrupted after the secret is overwritten and before the tombstone is in place, it is an erasure; interrupted
  /// earlier, it is not.
  @Test func cutShort() throws {
    let stored = try StoredKeybag()
    let tombstone = try stored.keybag.erased(deviceKey: stored.deviceKey)
    #expect(stored.file.tombstone(of: stored.keybag, stored.deviceKey) == nil)
    try stored.directory.write(".protectfs/keybag.previous", tombstone.bytes)
    #expect(stored.file.tombstone(of: stored.keybag, stored.deviceKey) == nil)
    _ = try stored.open(.passcode(stored.store.passcode())).heldKeys()
    try stored.file.repair(stored.keybag, deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == stored.keybag.bytes)

    try stored.directory.write(".protectfs/keybag.previous", tombstone.bytes)
    try stored.directory.write(".protectfs/effaceable", [UInt8](repeating: 0, count: 16_384))
    #expect(stored.file.tombstone(of: stored.keybag, stored.deviceKey) == tombstone)
    var forged = tombstone.bytes
    forged[forged.count - 1] ^= 1
    try stored.directory.write(".protectfs/keybag.previous", forged)
    #expect(stored.file.tombstone(of: stored.keybag, stored.deviceKey) == nil)
  }

  /// The tombstone is in one place, and the keybag in the other, with its secret. A restoration brings nothing back, an
  /// import keeps nothing, and the next start finishes the erasure.
  @Test(arguments: [true, false]) func halfErased(isInPlace: Bool) throws {
    let stored = try StoredKeybag()
    let tombstone = try stored.keybag.erased(deviceKey: stored.deviceKey)
    let (current, previous) = isInPlace ? (tombstone, stored.keybag) : (stored.keybag, tombstone)
    try stored.directory.write(".protectfs/keybag", current.bytes)
    try stored.directory.write(".protectfs/keybag.previous", previous.bytes)
    let found = try stored.file.authenticKeybags(of: stored.keybag.storeID, stored.deviceKey)
    let time = try #require(tombstone.erasureTime)
    #expect(throws: KeyManagementError.storeErased(at: time)) { try stored.file.restore(previous, over: found) }
    #expect(try stored.file.read() == current.bytes)
    #expect(found.kept(beside: stored.keybag) == current)
    guard isInPlace else { return }
    try stored.file.repair(tombstone, deviceKey: stored.deviceKey)
    #expect(try stored.file.readPrevious() == tombstone.bytes)
    #expect(try stored.directory.read(".protectfs/effaceable").allSatisfy { $0 == 0 })
  }

  /// An erasure without room that was cut short when the secret was overwritten gets its tombstone in place, with its
  /// time.
  @Test func notedAlone() throws {
    let stored = try StoredKeybag()
    let tombstone = try stored.keybag.erased(deviceKey: stored.deviceKey)
    try stored.directory.write(".protectfs/keybag.previous", tombstone.bytes)
    try stored.directory.write(".protectfs/effaceable", [UInt8](repeating: 0, count: 16_384))
    try stored.file.repair(tombstone, deviceKey: stored.deviceKey)
    #expect(try stored.file.read() == tombstone.bytes)
    #expect(try stored.file.readPrevious() == tombstone.bytes)
  }

  private func erase(_ stored: borrowing StoredKeybag) throws -> Keybag {
    let erasure = try stored.file.erase(stored.keybag, deviceKey: stored.deviceKey)
    #expect(erasure.failure == nil)
    return erasure.tombstone
  }
}
