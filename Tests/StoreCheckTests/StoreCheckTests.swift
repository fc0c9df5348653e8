import Foundation
import StoreCheck
import Testing

@Suite("A check of a store") struct StoreCheckTests {
  @Test func aWholeStoreIsClean() throws {
    let store = try BuiltStore()
    try store.fill()
    let before = try store.contents()
    for withPasscode in [false, true] {
      for isRepairing in [false, true] {
        let (findings, summary) = try store.check(withPasscode: withPasscode, isRepairing: isRepairing)
        #expect(findings.isEmpty, "\(findings)")
        #expect(summary.errors == 0 && summary.notes == 0)
        #expect(
          summary.entries == before.count - 6,
          "all but .protectfs, the keybags, the effaceable secret and a target file")
      }
    }
    #expect(try store.contents() == before)
  }

  @Test func theKeybagBeforeTheLastChangeIsAsItShouldBe() throws {
    let store = try BuiltStore()
    try store.changeKeybag(times: 1)
    #expect(try store.check().findings.isEmpty)
  }

  /// Each defect is found, and nothing else; repaired, with nothing else changed; and then not found again.
  @Test(arguments: PlantedDefect.all) func plantedDefect(_ planted: PlantedDefect) throws {
    let store = try BuiltStore()
    try store.fill()
    let (backingPath, path) = try planted.plant(store)
    let before = try store.contents()

    func expectFinding(_ findings: [Finding], _ isRepaired: Bool) {
      #expect(findings.map(\.defect) == [planted.defect], "\(findings.map(\.description))")
      #expect(findings.first?.backingPath.description == backingPath)
      #expect(findings.first?.path?.description == path)
      #expect(findings.first?.isRepaired == isRepaired)
    }
    let withoutPasscode = try store.check(withPasscode: false).findings
    if planted.needsPasscode {
      #expect(withoutPasscode.isEmpty)
    } else {
      expectFinding(withoutPasscode, false)
    }
    expectFinding(try store.check().findings, false)
    #expect(try store.contents() == before, "a check changes nothing")

    let (findings, summary) = try store.check(isRepairing: true)
    expectFinding(findings, planted.repair != .left)
    let isError = planted.defect.severity == .error
    #expect(summary.errors == (isError ? 1 : 0) && summary.notes == (isError ? 0 : 1))
    #expect(summary.errorsRepaired == (isError && planted.repair != .left ? 1 : 0))
    let after = try store.contents()
    expectKept(before, after, findings.first, planted)

    let again = try store.check().findings
    if planted.repair == .left { expectFinding(again, false) } else { #expect(again.isEmpty, "\(again)") }
  }

  /// Only leftovers may be gone. Everything else that is not in its place is in lost+found, the same file with the same
  /// bytes.
  private func expectKept(
    _ before: [String: BuiltStore.Content], _ after: [String: BuiltStore.Content], _ finding: Finding?,
    _ planted: PlantedDefect
  ) {
    let found = finding?.backingPath.description ?? ""
    let lostAndFound = after.filter { $0.key.hasPrefix("/.protectfs/lost+found/") }.map(\.value)
    let isOfAttribute = planted.defect.rawValue.hasPrefix("attribute-")
    for (path, content) in before {
      // A damaged link is moved with its long symlink file. That of another link stays, or the next check would report
      // it.
      let isTarget = planted.defect == .symbolicLinkDamaged && path.hasPrefix("/.protectfs/targets/")
      let isVictim =
        path == found || path.hasPrefix(found + "/") || path == found + ".name" || isTarget && after[path] == nil
      if planted.repair == .left || !isVictim {
        #expect(after[path] == content, "\(path)")
      } else if isOfAttribute {
        let kept = after[path]?.attributes ?? [:]
        #expect(after[path]?.bytes == content.bytes)
        #expect(kept.count == content.attributes.count - 1)
        let removed = content.attributes.first { kept[$0.key] == nil }
        #expect(lostAndFound.map(\.bytes) == [removed?.value ?? []])
      } else if planted.repair == .moved {
        #expect(lostAndFound.contains(content), "\(path)")
      }
    }
    #expect(lostAndFound.isEmpty == (planted.repair != .moved))
    if case .moved(let place) = finding?.outcome { #expect(after[place] != nil, "it is where it was said to be") }
  }

  @Test func everyDefectIsPlanted() {
    let planted = Set(PlantedDefect.all.map(\.defect))
    // These need a failing device, and a mount.
    // The last two are those of authenticated stores: CleanFileTests has them.
    #expect(
      Set(Defect.allCases).subtracting(planted) == [.unreadable, .otherFileSystem, .lengthAltered, .contentsDamaged])
    #expect(Set(Defect.allCases.map(\.meaning)).count == Defect.allCases.count)
  }
}
