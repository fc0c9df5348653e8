import DataProtection
import Foundation
import Testing

/// A file manager that notes which of its methods are called, as tests of apps have them.
private final class Spy: FileManager, @unchecked Sendable {
  var calls: [String] = []

  override func setAttributes(_ attributes: [FileAttributeKey: Any], ofItemAtPath path: String) throws {
    calls.append("setAttributes")
    try super.setAttributes(attributes, ofItemAtPath: path)
  }

  override func attributesOfItem(atPath path: String) throws -> [FileAttributeKey: Any] {
    calls.append("attributesOfItem")
    return try super.attributesOfItem(atPath: path)
  }

  override func createFile(atPath path: String, contents: Data?, attributes: [FileAttributeKey: Any]?) -> Bool {
    calls.append("createFile")
    return super.createFile(atPath: path, contents: contents, attributes: attributes)
  }

  override func createDirectory(
    atPath path: String, withIntermediateDirectories createsIntermediates: Bool, attributes: [FileAttributeKey: Any]?
  ) throws {
    calls.append("createDirectory")
    try super.createDirectory(
      atPath: path, withIntermediateDirectories: createsIntermediates, attributes: attributes)
  }

  override func copyItem(atPath source: String, toPath target: String) throws {
    calls.append("copyItem")
    try super.copyItem(atPath: source, toPath: target)
  }

  override func moveItem(atPath source: String, toPath target: String) throws {
    calls.append("moveItem")
    try super.moveItem(atPath: source, toPath: target)
  }
}

@Suite struct SubclassTests {
  /// What an override calls by way of `super` is this module's property, whose value calls the override.
  @Test func anOverrideReachesFoundation() throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let files = Spy()
    try files.createDirectory(atPath: directory, withIntermediateDirectories: false)
    #expect(files.createFile(atPath: "\(directory)/a", contents: Data([1])))
    try files.setAttributes([.posixPermissions: 0o640], ofItemAtPath: "\(directory)/a")
    #expect(try files.attributesOfItem(atPath: "\(directory)/a")[.posixPermissions] as? Int == 0o640)
    try files.copyItem(atPath: "\(directory)/a", toPath: "\(directory)/b")
    try files.moveItem(atPath: "\(directory)/b", toPath: "\(directory)/c")
    #expect(try files.contentsOfDirectory(atPath: directory).sorted() == ["a", "c"])
    #expect(
      files.calls == ["createDirectory", "createFile", "setAttributes", "attributesOfItem", "copyItem", "moveItem"])
  }

  /// Each signature has its own override, and those of tests do nothing.
  @Test func overridesSeeTheClass() throws {
    let files = Mock()
    let attributes: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.complete]
    let url = URL(fileURLWithPath: "/nonexistent")
    try files.createDirectory(at: url, withIntermediateDirectories: false)
    try files.createDirectory(at: url, withIntermediateDirectories: false, attributes: attributes)
    try files.createDirectory(atPath: url.path, withIntermediateDirectories: false, attributes: attributes)
    try files.setAttributes(attributes, ofItemAtPath: url.path)
    #expect(files.calls == ["at", "at complete", "atPath complete", "setAttributes complete"])
  }

  /// Where there is no class, an override that does something changes nothing about that.
  @Test func classesAreRefusedElsewhere() throws {
    let scratch = try Scratch()
    let attributes: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.complete]
    let files = Spy()
    #expect(cocoaCode { try files.setAttributes(attributes, ofItemAtPath: scratch.url.path) } == .featureUnsupported)
    let code = cocoaCode {
      try files.createDirectory(at: scratch["new"], withIntermediateDirectories: true, attributes: attributes)
    }
    #expect(try code == .featureUnsupported && scratch.names().isEmpty)
  }
}

/// A file manager that does nothing.
private final class Mock: FileManager, @unchecked Sendable {
  var calls: [String] = []

  private func note(_ name: String, _ attributes: [FileAttributeKey: Any]?) {
    let isProtected = attributes?[.protectionKey] as? FileProtectionType == .complete
    calls.append(isProtected ? "\(name) complete" : name)
  }

  override func createDirectory(
    at url: URL, withIntermediateDirectories createsIntermediates: Bool, attributes: [FileAttributeKey: Any]?
  ) throws { note("at", attributes) }

  override func createDirectory(
    atPath path: String, withIntermediateDirectories createsIntermediates: Bool, attributes: [FileAttributeKey: Any]?
  ) throws { note("atPath", attributes) }

  override func setAttributes(_ attributes: [FileAttributeKey: Any], ofItemAtPath path: String) throws {
    note("setAttributes", attributes)
  }
}
