import ProtectfsPolicy
import StoreCheck
import Testing

@testable import KeyManagement

/// Files whose class keys the current keybag does not have, and whole keybags beside it. All of them stay where they
/// are, since one may open the other.
@Suite struct OtherKeybagTests {
  private static let current = "/.protectfs/keybag"
  private static let previous = "/.protectfs/keybag.previous"
  private static let effaceable = "/.protectfs/effaceable"

  /// A copy of a store whose keybag was read before a rotation, and its files after it.
  @Test func filesUnderNewerKeysStay() throws {
    let store = try BuiltStore()
    try store.fill()
    let own = [Self.current, Self.previous, Self.effaceable]
    let old = try own.map(store.read)
    try store.rotateAway(.complete, but: "")
    for (place, bytes) in zip(own, old) { try store.write(bytes, to: place) }
    let before = try store.contents()
    for withPasscode in [false, true] {
      let (findings, summary) = try store.check(withPasscode: withPasscode, isRepairing: true)
      #expect(findings.map(\.path?.description).sorted { $0 ?? "" < $1 ?? "" } == ["/class A", "/folder/attributes"])
      #expect(findings.allSatisfy { $0.defect == .classKeyUnknown && $0.outcome == .left }, "\(findings)")
      #expect(summary.errors == 2 && summary.errorsRepaired == 0)
      #expect(try store.contents() == before)
    }
  }

  /// An old keybag is put back over the result of a rotation. The second copy opens everything.
  @Test func aStaleKeybagIsReplacedByTheSecondCopy() throws {
    let store = try BuiltStore()
    try store.fill()
    let old = store.keybag.bytes
    try store.rotateAway(.complete, but: "")
    let good = store.keybag.bytes
    let before = try store.contents()
    try store.write(old, to: Self.current)
    #expect(try store.check().findings.map(\.defect) == [.keybagStale])
    #expect(try store.check(isRepairing: true).findings.map(\.outcome) == [.moved(to: "/.protectfs/lost+found/keybag")])
    #expect(try store.read(Self.current) == good)
    let after = try store.contents()
    for (place, content) in before where place != Self.current { #expect(after[place] == content, "\(place)") }
    #expect(try store.check().findings.isEmpty)
  }

  /// The keybag of another store, whose device key is also available. Under its keys nothing here is authentic.
  @Test func underTheKeysOfAnotherStoreNothingIsTouched() throws {
    let store = try BuiltStore()
    try store.fill()
    let other = try BuiltStore(isAnother: true)
    for place in [Self.current, Self.effaceable] { try store.write(other.read(place), to: place) }
    let before = try store.contents()
    let (findings, _) = try StoreCheck.findings(
      in: store.path, deviceKey: other.deviceKey, withPasscode: false, isRepairing: true)
    #expect(findings.contains { $0.defect == .directoryRecordAltered && $0.backingPath == "/" }, "\(findings)")
    #expect(findings.allSatisfy { !$0.isRepaired })
    #expect(try store.contents() == before)
  }

  /// Neither copy has its secret, so none replaces the other.
  @Test func aKeybagWithoutItsSecretReplacesNothing() throws {
    let store = try BuiltStore()
    let old = store.keybag.bytes
    try store.rotateAway(.complete, but: "")
    try store.write(Array(store.keybag.bytes.dropLast()), to: Self.current)
    try store.write(old, to: Self.previous)
    let before = try store.contents()
    let findings = try store.check(isRepairing: true).findings
    #expect(findings.map(\.defect) == [.effaceableSecretMissing, .keybagDamaged])
    #expect(findings.allSatisfy { !$0.isRepaired })
    #expect(try store.contents() == before)
  }

  /// A reset is undone. Files written in between wait for the keybag that is now the second copy.
  @Test func aResetUndoneCanBeDoneAgain() throws {
    let store = try BuiltStore()
    try store.fill()
    let old = store.keybag.bytes
    try store.reset()
    let item = try store.makeFile("new", fileClass: .complete)
    try store.write(store.keybag.bytes, to: Self.previous)
    try store.write(old, to: Self.current)
    let before = try store.contents()
    let findings = try store.check(isRepairing: true).findings
    #expect(findings.map(\.defect) == [.previousKeybagUnrelated, .classKeyUnknown])
    #expect(findings.last?.backingPath.description == item.backingPath)
    #expect(findings.last?.detail.contains("keybag restore") == true)
    #expect(findings.allSatisfy { $0.outcome == .left }, "\(findings)")
    #expect(try store.contents() == before)
    // Once more with the newer keybag in place: now the other files are reported, as revoked.
    try store.write(store.keybag.bytes, to: Self.current)
    try store.write(old, to: Self.previous)
    let revoked = try store.check(isRepairing: true).findings
    #expect(!revoked.isEmpty && revoked.allSatisfy { $0.defect == .keyRevoked && $0.detail.contains("keybag restore") })
  }

  /// Two keybags that diverged. A file under a key of the other is not damaged.
  @Test func aFileOfTheSecondCopysKeyStays() throws {
    let store = try BuiltStore()
    let first = store.keybag
    try store.reset()
    let other = store.keybag
    let item = try store.makeFile("file", fileClass: .complete)
    try store.use(first)
    try store.reset()
    try store.write(other.bytes, to: Self.previous)
    let before = try store.contents()
    let findings = try store.check(isRepairing: true).findings
    #expect(findings.map(\.defect) == [.previousKeybagUnrelated, .classKeyUnknown])
    #expect(findings.last?.backingPath.description == item.backingPath)
    #expect(findings.allSatisfy { $0.outcome == .left }, "\(findings)")
    #expect(try store.contents() == before)
  }

  /// A change is interrupted just before the keybag is replaced. The new keybag is whole, and kept.
  @Test func aWholeKeybagAsideIsMoved() throws {
    let store = try BuiltStore()
    let old = store.keybag.bytes
    try store.rotateAway(.complete, but: "")
    try store.write(old, to: Self.current + ".new")
    let finding = try #require(try store.check(isRepairing: true).findings.first)
    #expect(finding.defect == .keybagLeftover)
    #expect(finding.outcome == .moved(to: "/.protectfs/lost+found/keybag.new"))
    #expect(try store.read("/.protectfs/lost+found/keybag.new") == old)
    // A leftover that is a copy is not kept.
    try store.write(store.keybag.bytes, to: Self.current + ".new")
    #expect(try store.check(isRepairing: true).findings.map(\.outcome) == [.fixed])
  }
}
