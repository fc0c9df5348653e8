import Cryptography
import Foundation
import ProtectfsIO
import StoreCheck
import SystemPackage
import Testing

/// Trees of shapes that would break a careless check.
@Suite struct LargeTreeTests {
  @Test func aHugeDirectory() throws {
    let store = try BuiltStore()
    let folder = try store.makeDirectory("huge")
    for number in 0..<20_000 { try store.write([], to: store.place("\(number)", in: folder).backingPath) }
    for number in 0..<500 { try store.write([1], to: folder.backingPath + "/foreign.\(number)") }
    let (findings, summary) = try store.check(isRepairing: true)
    #expect(summary.entries == 20_501)
    #expect(summary.notes == 20_000)
    #expect(summary.errors == 500 && summary.errorsRepaired == 500)
    #expect(findings.count == 20_500)
    #expect(try store.check(withPasscode: false).1.errors == 0)
    #expect(try store.contents().keys.count { $0.contains("/lost+found/foreign.") } == 500)
  }

  /// Deeper than the number of kept descriptors, and longer than any path may be.
  @Test func aDeepTree() throws {
    let store = try BuiltStore()
    // All have the root's ID, which nothing forbids, so that names can be encrypted without paths.
    let record = try store.directoryRecord(store.root.identifier)
    let folderName = try backingName("folder", store)
    var descriptor = try Descriptor.open(PathName(store.path), [.readOnly, .directory])
    for depth in 0..<400 {
      // Entries around the visited directory: reading must continue where it was.
      for name in ["a", "b"] {
        let file = try descriptor.open(backingName("\(name)\(depth)", store), [.writeOnly, .create], mode: 0o600)
        try file.setAttribute("user.cprotect", to: store.fileRecord(FileKey(), .none).bytes)
      }
      try descriptor.makeDirectory(folderName, mode: 0o700)
      descriptor = try descriptor.open(folderName, [.readOnly, .directory])
      try descriptor.setAttribute("user.cprotect", to: record)
    }
    try descriptor.makeNode("foreign", mode: 0o100600, device: 0)
    let (findings, summary) = try store.check(isRepairing: true)
    #expect(summary.entries == 400 * 3 + 1)
    #expect(findings.map(\.defect) == [.foreignEntry])
    #expect(findings.first?.isRepaired == true)
    #expect(findings.first?.backingPath.bytes.count ?? 0 > 4096)
    #expect(try store.check().findings.isEmpty)
  }

  private func backingName(_ name: String, _ store: BuiltStore) throws -> PathName {
    PathName(String(try store.place(name, in: store.root).backingPath.dropFirst()))
  }
}
