import DataProtection
import Foundation
import ProtectfsIO
import SystemPackage
import Testing

/// Calls of Foundation that properties of the library stand before: they compile unchanged, and do the same where there
/// is no mount.
@Suite struct FoundationCallTests {
  private let manager = FileManager.default

  @Test func dataIsWritten() throws {
    let scratch = try Scratch()
    let (url, path) = (scratch["file"], scratch["file"].path)
    let data = Data("data".utf8)
    let calls: [() throws -> Void] = [
      { try data.write(to: url) },
      { try data.write(to: url, options: []) },
      { try data.write(to: url, options: .atomic) },
      { try data.write(to: url, options: .atomicWrite) },
      { try (data as NSData).write(to: url) },
      { try (data as NSData).write(to: url, options: []) },
      { try (data as NSData).write(to: url, options: [.atomic]) },
      { try (data as NSData).write(to: url, options: [.atomicWrite]) },
      { try (data as NSData).write(toFile: path) },
      { try (data as NSData).write(toFile: path, options: .withoutOverwriting) },
      { #expect((data as NSData).write(to: url, atomically: true)) },
      { #expect((data as NSData).write(to: url, atomically: false)) },
      { #expect((data as NSData).write(toFile: path, atomically: true)) },
      { try NSMutableData(data: data).write(to: url, options: .atomic) },
      { try "data".write(to: url, atomically: true, encoding: .utf8) },
      { try "data".write(to: url, atomically: false, encoding: .utf8) },
      { try "data".write(toFile: path, atomically: true, encoding: String.Encoding.utf8) },
      { try "data".dropLast(0).write(to: url, atomically: true, encoding: .utf8) },
      { try ("data" as NSString).write(to: url, atomically: true, encoding: String.Encoding.utf8.rawValue) },
      { try ("data" as NSString).write(toFile: path, atomically: true, encoding: 4) },
    ]
    for (number, call) in calls.enumerated() {
      try? manager.removeItem(at: url)
      try call()
      #expect(try Data(contentsOf: url) == data, "call \(number)")
    }
    #expect(try scratch.names() == ["file"])
  }

  /// `write` of streams of text is another.
  @Test func textStreamsAreWritten() {
    var text = "a"
    text.write("b")
    print("c", terminator: "", to: &text)
    func append(_ stream: inout some TextOutputStream) { stream.write("d") }
    append(&text)
    #expect(text == "abcd")
  }

  /// Without a property: as values, and through a protocol.
  @Test func methodsAreStillValues() throws {
    let scratch = try Scratch()
    let write: (URL, Data.WritingOptions) throws -> Void = Data("1".utf8).write
    let writeBridged: (URL, NSData.WritingOptions) throws -> Void = NSData().write
    let copy: (URL, URL) throws -> Void = manager.copyItem
    let move: (String, String) throws -> Void = manager.moveItem
    try write(scratch["a"], [])
    try writeBridged(scratch["b"], .atomic)
    try copy(scratch["a"], scratch["c"])
    try move(scratch["c"].path, scratch["d"].path)
    #expect(try scratch.text("d") == "1")
    let copier: any Copier = manager
    try copier.copyItem(at: scratch["d"], to: scratch["e"])
    #expect(try scratch.names() == ["a", "b", "d", "e"])
  }

  @Test func itemsAreCopiedAndMoved() throws {
    let scratch = try Scratch()
    try scratch.write("text", to: "a")
    try manager.copyItem(at: scratch["a"], to: scratch["b"])
    try manager.copyItem(atPath: scratch["a"].path, toPath: scratch["c"].path)
    try manager.moveItem(at: scratch["b"], to: scratch["d"])
    try manager.moveItem(atPath: scratch["c"].path, toPath: scratch["e"].path)
    #expect(try scratch.names() == ["a", "d", "e"])
    #expect(try scratch.text("d") == "text" && scratch.text("e") == "text")
    let exists = #expect(throws: CocoaError.self) { try manager.copyItem(at: scratch["a"], to: scratch["d"]) }
    #expect(exists?.code == .fileWriteFileExists)
  }

  /// What is before a NUL is the path of another file.
  @Test func pathsWithNULAreRefused() throws {
    let scratch = try Scratch()
    try scratch.write("old", to: "a")
    let (file, other) = (scratch["a"], scratch["b"])
    let path = file.path + "\0b"
    let url = URL(fileURLWithPath: path)
    let attributes: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.complete]
    let calls: [() throws -> Void] = [
      { try Data().write(to: url) },
      { try Data().write(to: url, options: .atomic) },
      { try Data().write(to: url, options: .completeFileProtection) },
      { try (Data() as NSData).write(toFile: path) },
      { try "new".write(to: url, atomically: false, encoding: .utf8) },
      { try "new".write(toFile: path, atomically: true, encoding: .utf8) },
      { try ("new" as NSString).write(toFile: path, atomically: false, encoding: 4) },
      { try manager.createDirectory(atPath: path, withIntermediateDirectories: true) },
      { try manager.createDirectory(at: url, withIntermediateDirectories: true, attributes: attributes) },
      { try manager.setAttributes(attributes, ofItemAtPath: path) },
      { try manager.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path) },
      { try manager.copyItem(at: file, to: url) },
      { try manager.copyItem(atPath: file.path, toPath: path) },
      { try manager.moveItem(at: file, to: url) },
      { try manager.moveItem(atPath: file.path, toPath: path) },
      { try manager.replaceItemAt(url, withItemAt: file) },
    ]
    for (number, call) in calls.enumerated() {
      #expect(cocoaCode(of: call) == .fileWriteInvalidFileName, "call \(number)")
    }
    let readingCalls: [() throws -> Void] = [
      { try manager.copyItem(at: url, to: other) },
      { try manager.copyItem(atPath: path, toPath: other.path) },
      { try manager.moveItem(at: url, to: other) },
      { try manager.moveItem(atPath: path, toPath: other.path) },
      { _ = try manager.protection(ofItemAt: url) as FileProtectionType },
      { _ = try manager.attributesOfItem(atPath: path) },
    ]
    for (number, call) in readingCalls.enumerated() {
      #expect(cocoaCode(of: call) == .fileReadInvalidFileName, "reading call \(number)")
    }
    for attributes in [nil, attributes] {
      #expect(!manager.createFile(atPath: path, contents: nil, attributes: attributes))
    }
    #expect(try scratch.names() == ["a"] && scratch.text("a") == "old")
  }

  /// Attributes of other programs look like fields, and are none.
  @Test func attributesElsewhereAreLeftAlone() throws {
    let scratch = try Scratch()
    try scratch.write("old", to: "file")
    try scratch.path("file").setAttribute("user.protectfs.class", to: Array("complete".utf8))
    try scratch.path("file").setAttribute("user.author", to: Array("me".utf8))
    try Data("new".utf8).write(to: scratch["file"], options: .atomic)
    #expect(try scratch.text("file") == "new")
    try scratch.path("file").setAttribute("user.protectfs.class", to: Array("complete".utf8))
    try manager.copyItem(at: scratch["file"], to: scratch["copy"])
    #expect(try scratch.text("copy") == "new")
    #expect(
      cocoaCode { try (Data() as NSData).write(to: scratch["x"], options: .completeFileProtection) }
        == .featureUnsupported)
    #expect(try scratch.names() == ["file", "copy"])
  }
}

private protocol Copier {
  func copyItem(at source: URL, to target: URL) throws
}

extension FileManager: Copier {}

/// The code of the `CocoaError` of a call; `nil` if it does not fail, or fails otherwise.
func cocoaCode(of body: () throws -> Void) -> CocoaError.Code? {
  do {
    try body()
    return nil
  } catch {
    return (error as? CocoaError)?.code
  }
}
