import Foundation
import ProtectfsIO
import StoreCheck
import SystemPackage
import Testing

/// Where a repair moves things, and what it does not change.
@Suite struct LostAndFoundTests {
  @Test func takenNamesAreNumbered() throws {
    let store = try BuiltStore()
    for content in 1...3 as ClosedRange<UInt8> {
      try store.write([content], to: "/same")
      let finding = try #require(try store.check(isRepairing: true).findings.first)
      let suffix = content == 1 ? "" : ".\(content - 1)"
      #expect(finding.outcome == .moved(to: "/.protectfs/lost+found/same\(suffix)"))
      #expect(try store.read("/.protectfs/lost+found/same\(suffix)") == [content])
    }
    let longest = String(repeating: "x", count: 255)
    for _ in 1...2 {
      try store.write([], to: "/" + longest)
      #expect(try store.check(isRepairing: true).findings.first?.isRepaired == true)
    }
    #expect(try store.contents()["/.protectfs/lost+found/\(longest.dropLast(2)).1"] != nil)
  }

  @Test func aSidecarGoesWithItsFile() throws {
    let store = try BuiltStore()
    let name = String(repeating: "n", count: 200)
    for suffix in ["", ".1"] {
      let item = try store.makeFile(name, encryptedIn: [UInt8](repeating: 1, count: 16))
      _ = try store.check(isRepairing: true)
      let moved = "/.protectfs/lost+found" + item.backingPath + suffix
      #expect(try store.contents()[moved] != nil)
      #expect(try store.contents()[moved + ".name"] != nil)
      #expect(try store.check().findings.isEmpty)
    }
  }

  /// A link that was moved keeps its target for the day on which it is moved back.
  @Test func aLongTargetStaysForItsLink() throws {
    let store = try BuiltStore()
    let folder = try store.makeDirectory("folder")
    let target = try store.makeTargetFile(String(repeating: "t", count: 4095))
    let link = try store.makeSymbolicLink("link", text: target.text)
    // There, nobody can read its name.
    try FileManager.default.moveItem(
      atPath: store.path + link.backingPath, toPath: store.path + folder.backingPath + link.backingPath)
    #expect(try store.check(isRepairing: true).findings.map(\.isRepaired) == [true])
    #expect(try store.check(isRepairing: true).findings.isEmpty)
    #expect(try store.contents()[target.place] != nil)
    try store.remove("/.protectfs/lost+found" + link.backingPath)
    #expect(try store.check(isRepairing: true).findings.map(\.defect) == [.orphanTarget])
  }

  @Test func lostAndFoundMustBeADirectory() throws {
    let store = try BuiltStore()
    try store.write([1], to: "/foreign")
    try FileManager.default.createSymbolicLink(
      atPath: store.path + "/.protectfs/lost+found", withDestinationPath: "/tmp")
    let finding = try #require(try store.check(isRepairing: true).findings.first)
    #expect(!finding.isRepaired)
    #expect(try store.read("/foreign") == [1])
  }

  @Test func everyNameOfAFileIsChecked() throws {
    let store = try BuiltStore()
    let item = try store.makeFile("one", [1])
    let other = try store.place("two", in: store.root)
    try FileManager.default.linkItem(atPath: store.path + item.backingPath, toPath: store.path + other.backingPath)
    #expect(try store.check(isRepairing: true).findings.map(\.isRepaired) == [true, true])
    #expect(try store.check().findings.isEmpty)
  }

  /// The mount serves files that their owner may not read. Their modes do not change.
  @Test func forbiddenModesAreNoDefects() throws {
    let store = try BuiltStore()
    try store.fill()
    let item = try store.makeFile("forbidden")
    try PathName(store.path + item.backingPath).setModeForTest(0)
    let folder = try store.makeDirectory("unlisted")
    try store.makeFile("file", in: folder)
    try PathName(store.path + folder.backingPath).setModeForTest(0o300)
    #expect(try store.check().findings.isEmpty)
    let directory = try Descriptor.open(PathName(store.path), [.readOnly, .directory])
    #expect(try directory.status(of: PathName(String(item.backingPath.dropFirst()))).permissions == 0)
    #expect(try directory.status(of: PathName(String(folder.backingPath.dropFirst()))).permissions == 0o300)
    try PathName(store.path + folder.backingPath).setModeForTest(0o700)
  }
}

extension PathName {
  fileprivate func setModeForTest(_ mode: UInt32) throws {
    try Descriptor.open(self, [.path]).setModeThroughPath(mode)
  }
}
