import Foundation
import ProtectfsIO
import SystemPackage
import Testing

@testable import DataProtectionEssentials

/// A directory whose content is changed.
private struct Place {
  let url: URL

  subscript(_ name: String) -> URL { url.appendingPathComponent(name) }

  func write(_ text: String, to name: String) throws { try Data(text.utf8).write(to: self[name]) }
}

/// What is moved by a copy is removed afterwards; what others have put there meanwhile has no copy.
@Suite struct MovedItemsTests {
  private let changes: [(String, (Place) throws -> Void)] = [
    (
      "appended",
      { scratch in
        let file = try FileHandle(forWritingTo: scratch["tree/b"])
        try file.seekToEnd()
        try file.write(contentsOf: Data("more".utf8))
      }
    ),
    (
      "replaced",
      { scratch in
        try scratch.write("new", to: "other")
        let directory = try Descriptor.open(PathName(scratch.url.path), [.path])
        try directory.rename("other", to: "tree/b", in: directory)
      }
    ),
    ("new file", { try $0.write("new", to: "tree/deep/new") }),
    (
      "new directory",
      { try FileManager.default.createDirectory(at: $0["tree/new"], withIntermediateDirectories: true) }
    ),
    ("removed", { try FileManager.default.removeItem(at: $0["tree/b"]) }),
  ]

  private func makeTree(in scratch: borrowing Scratch) throws {
    try? FileManager.default.removeItem(at: scratch["tree"])
    try FileManager.default.createDirectory(at: scratch["tree/deep/er"], withIntermediateDirectories: true)
    for name in ["tree/a", "tree/b", "tree/deep/c"] { try scratch.write("text", to: name) }
    try FileManager.default.linkItem(at: scratch["tree/a"], to: scratch["tree/deep/same"])
    try FileManager.default.createSymbolicLink(atPath: scratch["tree/link"].path, withDestinationPath: "a")
  }

  /// Nothing has moved then.
  @Test func changesDuringTheCopyAreNoticed() throws {
    for (name, change) in changes {
      let scratch = try Scratch()
      try makeTree(in: scratch)
      let (manager, delegate) = (FileManager(), AskedDelegate())
      manager.delegate = delegate
      let url = scratch.url
      var isDone = false
      delegate.isWanted = { source in
        guard source.lastPathComponent == "er", !isDone else { return true }
        isDone = true
        do {
          try change(Place(url: url))
        } catch {
          Issue.record("\(name): \(error)")
        }
        return true
      }
      let error = #expect(throws: CocoaError.self, "\(name)") {
        try ItemCopy(ItemCopy.Rules(isMove: true), asking: manager)
          .run(from: scratch["tree"].path, to: scratch["moved"].path)
      }
      #expect(isDone)
      if name != "removed" {
        #expect(error?.localizedDescription.contains("changed by others") == true, "\(name)")
      }
      #expect(try !scratch.names().contains("moved"))
      #expect(try scratch.text("tree/a") == "text")
    }
  }

  /// What changes after the copy has its name stays, beside the copy.
  @Test func onlyWhatWasCopiedIsRemoved() throws {
    for (name, change) in changes where name != "removed" {
      let scratch = try Scratch()
      try makeTree(in: scratch)
      let moved = try ItemCopy(ItemCopy.Rules(isMove: true)).run(
        from: scratch["tree"].path, to: scratch["moved"].path)
      try change(Place(url: scratch.url))
      #expect(throws: CocoaError.self, "\(name)") {
        try moved.remove("tree", in: Descriptor.open(scratch.path("."), [.path]), at: scratch["tree"].path)
      }
      switch name {
      case "appended": #expect(try scratch.text("tree/b") == "textmore")
      case "replaced": #expect(try scratch.text("tree/b") == "new")
      case "new file": #expect(try scratch.text("tree/deep/new") == "new")
      default: #expect(try scratch.names().contains("tree/new"))
      }
      #expect(try scratch.text("moved/b") == "text")
    }
  }

  @Test func allOfAnUnchangedTreeIsRemoved() throws {
    let scratch = try Scratch()
    try makeTree(in: scratch)
    try Descriptor.open(scratch.path("tree/deep"), [.readOnly]).setMode(0o500)
    let moved = try ItemCopy(ItemCopy.Rules(isMove: true)).run(from: scratch["tree"].path, to: scratch["moved"].path)
    try moved.remove("tree", in: Descriptor.open(scratch.path("."), [.path]), at: scratch["tree"].path)
    #expect(
      try scratch.names() == [
        "moved", "moved/a", "moved/b", "moved/link", "moved/deep", "moved/deep/c",
        "moved/deep/same", "moved/deep/er",
      ])
  }
}
