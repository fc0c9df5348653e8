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
      sealing: record, keybagKey: SecretBytes(store.keybagKey.bytes), deviceKey: store.volumeKey())
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
    let change = try opened(keybag).removing(protector: keybag.protectors[0].id)
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) { try file.commit(change) }
    #expect(try file.read() == record.bytes)
  }

  @Test func hasNoNext() throws {
    let last = try keybag { $0.generation = .max }
    let opened = try opened(last)
    #expect(throws: KeyManagementError.keybagFull) { _ = try opened.removing(protector: last.protectors[0].id) }
    #expect(throws: KeyManagementError.keybagFull) { _ = try last.erased(deviceKey: store.volumeKey()) }
    #expect(throws: KeyManagementError.keybagFull) {
      _ = try last.resetting(passcode: store.passcode(), deviceKey: store.volumeKey(), effaceable: nil)
    }
    #expect(throws: KeyManagementError.keybagFull) {
      _ = try opened.replacement(over: [last.record], passcode: store.passcode(), cost: TestStore.cost)
    }
  }

  /// A keybag that an import replaces counts only if it is authentic.
  @Test func siblingsAreAuthentic() throws {
    let opened = try opened(keybag)
    let other = try keybag { $0.generation = 77 }
    #expect(opened.sibling(other.bytes) == other)
    var record = other.record
    record.generation = .max
    #expect(opened.sibling(record.bytes) == nil)
    #expect(opened.sibling([]) == nil)
  }
}
