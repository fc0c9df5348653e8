import Cryptography
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import Testing

@testable import KeyManagement

@Suite struct LockControllerTests {
  /// A rotation puts the class's last key in place before the keybag ends the other: files that are under it are usable
  /// until then.
  @Test func aKeyStaysUntilTheKeybagEndsIt() throws {
    let new = try TestStore.read().created()
    let noneKeys = try new.keybag.noneClassKeys(
      deviceKey: TestStore.read().volumeKey(), effaceable: new.change.secret)
    let controller = LockController(keybag: new.keybag, noneKeys: noneKeys)
    let (keyID, wrappedKey) = try controller.wrap(FileKey(), for: .none)
    let record = FileRecord(fileClass: .none, isExplicit: false, classKeyID: keyID, wrappedKey: wrappedKey)
    let other = try #require(ClassKeyID(rawValue: keyID.rawValue ^ 1 << 20))
    try controller.install([HeldKey(other, SecretBytes(randomCount: HeldKey.size))], for: .none)
    #expect(throws: Never.self) { _ = try controller.fileKey(of: record) }
  }
}
