import Foundation
import ProtectfsIO
import SystemPackage
import Testing

@testable import DataProtectionEssentials

/// The copies that the library makes itself, here of files without classes.
@Suite struct ItemCopyTests {
  /// A tree with one of everything.
  private func makeTree(in scratch: borrowing Scratch) throws {
    try FileManager.default.createDirectory(at: scratch["tree/deep/er"], withIntermediateDirectories: true)
    try scratch.write("a", to: "tree/a")
    try scratch.write("b", to: "tree/deep/b")
    try FileManager.default.createSymbolicLink(atPath: scratch["tree/link"].path, withDestinationPath: "deep/b")
    try Descriptor.open(scratch.path("tree"), [.path]).makeNode("pipe", mode: 0o010640, device: 0)
    try Descriptor.open(scratch.path("tree/a"), [.readOnly]).setMode(0o640)
    try Descriptor.open(scratch.path("tree/deep"), [.readOnly]).setMode(0o510)
  }

  @Test func treesAreCopied() throws {
    let scratch = try Scratch()
    try makeTree(in: scratch)
    try ItemCopy().run(from: scratch["tree"].path, to: scratch["copy"].path)
    #expect(try scratch.text("copy/a") == "a" && scratch.text("copy/link") == "b")
    #expect(try FileManager.default.destinationOfSymbolicLink(atPath: scratch["copy/link"].path) == "deep/b")
    #expect(try scratch.path("copy/pipe").status().mode == 0o010640)
    #expect(try scratch.path("copy/a").status().permissions == 0o640)
    #expect(try scratch.path("copy/deep").status().permissions == 0o510)
    #expect(
      try scratch.path("copy/deep").status().modification_seconds
        == scratch.path("tree/deep").status().modification_seconds)
    #expect(try scratch.names().filter { $0.hasPrefix("copy") }.count == 7)
    #expect(try scratch.names().filter { $0.hasPrefix("tree") }.count == 7)
    #expect(try scratch.names().count == 14, "something was left behind")
  }

  /// A file of many holes, larger than the disk, and one that ends in a hole.
  @Test func holesStayHoles() throws {
    let scratch = try Scratch()
    do {
      let file = try Descriptor.open(scratch.path("sparse"), [.readWrite, .create], mode: 0o600)
      for position in stride(from: UInt64(0), to: 1 << 42, by: 1 << 39) {
        try unsafe [UInt8]("data".utf8).withUnsafeBytes { try unsafe file.write($0, at: position) }
      }
      try file.truncate(to: 1 << 43)
    }
    try ItemCopy().run(from: scratch["sparse"].path, to: scratch["copy"].path)
    let status = try scratch.path("copy").status()
    #expect(status.size == 1 << 43 && status.blocks < 1000)
    let copy = try Descriptor.open(scratch.path("copy"), [.readOnly])
    for position in [UInt64(0), 7 << 39] {
      var bytes = [UInt8](repeating: 0, count: 5)
      _ = try unsafe bytes.withUnsafeMutableBytes { try unsafe copy.read(into: $0, at: position) }
      #expect(bytes == Array("data\0".utf8))
    }
  }

  @Test func nothingIsReplaced() throws {
    let scratch = try Scratch()
    try makeTree(in: scratch)
    try scratch.write("old", to: "file")
    try FileManager.default.createSymbolicLink(atPath: scratch["dangling"].path, withDestinationPath: "nowhere")
    let before = try scratch.names()
    for target in ["file", "tree/deep", "dangling", "tree/pipe"] {
      for source in ["tree", "tree/a"] where target != "tree/deep" || source == "tree/a" {
        let error = #expect(throws: CocoaError.self) {
          try ItemCopy().run(from: scratch[source].path, to: scratch[target].path)
        }
        #expect(error?.code == .fileWriteFileExists, "\(source) to \(target)")
      }
    }
    #expect(try scratch.text("file") == "old")
    #expect(try scratch.names() == before)
  }

  @Test func missingItemsAreErrors() throws {
    let scratch = try Scratch()
    try scratch.write("a", to: "a")
    let noSource = #expect(throws: CocoaError.self) {
      try ItemCopy().run(from: scratch["missing"].path, to: scratch["copy"].path)
    }
    #expect(noSource?.code == .fileReadNoSuchFile)
    let noDirectory = #expect(throws: CocoaError.self) {
      try ItemCopy().run(from: scratch["a"].path, to: scratch["missing/copy"].path)
    }
    #expect(noDirectory?.code == .fileNoSuchFile)
    #expect(try scratch.names() == ["a"])
  }

  @Test func directoriesAreNotCopiedIntoThemselves() throws {
    let scratch = try Scratch()
    try makeTree(in: scratch)
    let before = try scratch.names()
    for target in ["tree/copy", "tree/deep/er/copy"] {
      #expect(throws: CocoaError.self) { try ItemCopy().run(from: scratch["tree"].path, to: scratch[target].path) }
    }
    #expect(try scratch.names() == before)
  }

  /// A socket cannot be copied: with the copy of a tree that contains one, nothing stays.
  @Test func failedCopiesLeaveNothing() throws {
    let scratch = try Scratch()
    try makeTree(in: scratch)
    try Descriptor.open(scratch.path("tree/deep/er"), [.path]).makeNode("socket", mode: 0o140600, device: 0)
    let before = try scratch.names()
    let error = #expect(throws: CocoaError.self) {
      try ItemCopy().run(from: scratch["tree"].path, to: scratch["copy"].path)
    }
    #expect(error?.code == .fileReadUnknown)
    let path = unsafe error?.userInfo["NSFilePath"] as? String
    #expect(path == scratch["tree/deep/er/socket"].path)
    #expect(try scratch.names() == before)
  }

  @Test func delegatesAreAsked() throws {
    let scratch = try Scratch()
    try makeTree(in: scratch)
    try Descriptor.open(scratch.path("tree/deep/er"), [.path]).makeNode("socket", mode: 0o140600, device: 0)
    let (manager, delegate) = (FileManager(), AskedDelegate())
    manager.delegate = delegate
    delegate.isWanted = { $0.lastPathComponent != "a" }
    #expect(throws: CocoaError.self) {
      try ItemCopy(asking: manager).run(from: scratch["tree"].path, to: scratch["copy"].path)
    }
    #expect(delegate.errors.count == 1, "asked again about the directories above")
    #expect(!FileManager.default.fileExists(atPath: scratch["copy"].path))
    delegate.proceeds = true
    try ItemCopy(asking: manager).run(from: scratch["tree"].path, to: scratch["copy"].path)
    #expect(delegate.errors.count == 2)
    #expect(Set(delegate.asked) == ["tree", "a", "deep", "b", "er", "socket", "link", "pipe"])
    let copied = try scratch.names().filter { $0.hasPrefix("copy") }
    #expect(copied == ["copy", "copy/deep", "copy/deep/b", "copy/deep/er", "copy/link", "copy/pipe"])
    delegate.isWanted = { _ in false }
    try ItemCopy(asking: manager).run(from: scratch["tree"].path, to: scratch["none"].path)
    #expect(!FileManager.default.fileExists(atPath: scratch["none"].path))
  }

  /// Deeper than the process has descriptors, and than a path may be long.
  @Test func deepTreesAreCopiedAndRemoved() throws {
    let scratch = try Scratch()
    let depth = 1500
    var directory = SharedDescriptor(try Descriptor.open(PathName(scratch.url.path), [.path]))
    for _ in 0..<depth {
      try directory.descriptor.makeDirectory("level", mode: 0o700)
      directory = SharedDescriptor(try directory.descriptor.open("level", [.path, .directory]))
    }
    try directory.descriptor.makeNode("file", mode: 0o100600, device: 0)
    try ItemCopy().run(from: scratch["level"].path, to: scratch["copy"].path)
    directory = SharedDescriptor(try Descriptor.open(scratch.path("copy"), [.path]))
    for _ in 1..<depth { directory = SharedDescriptor(try directory.descriptor.open("level", [.path, .directory])) }
    #expect(try directory.descriptor.status(of: "file").type == .regular)
    let root = try Descriptor.open(PathName(scratch.url.path), [.path])
    for name in ["copy", "level"] as [PathName] { try root.removeTree(name) }
    #expect(try scratch.names().isEmpty)
  }

  /// A program that was killed while it copied has left a tree.
  @Test func unfinishedCopiesAreRemoved() throws {
    let scratch = try Scratch()
    let name = ".\(UUID().uuidString).staging"
    try FileManager.default.createDirectory(at: scratch["\(name)/copy/deep"], withIntermediateDirectories: true)
    try scratch.write("half", to: "\(name)/copy/deep/file")
    try scratch.write("kept", to: "kept")
    try Descriptor.open(scratch.path(name), [.path]).setTimes(
      access: .leave, modification: .set(seconds: 1_000_000_000, nanoseconds: 0))
    #expect(try FileManager.default.removeUnfinishedWrites(in: scratch.url) == 1)
    #expect(try scratch.names() == ["kept"])
  }
}
