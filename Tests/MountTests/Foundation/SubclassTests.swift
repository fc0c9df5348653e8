import DataProtection
import Foundation
import Testing

/// A file manager of an app, which puts all directories into a class.
private final class ProtectingManager: FileManager, @unchecked Sendable {
  override func createDirectory(
    at url: URL, withIntermediateDirectories createsIntermediates: Bool, attributes: [FileAttributeKey: Any]?
  ) throws {
    var attributes = attributes ?? [:]
    attributes[.protectionKey] = FileProtectionType.completeUnlessOpen
    try super.createDirectory(at: url, withIntermediateDirectories: createsIntermediates, attributes: attributes)
  }
}

extension MountTests {
  /// Subclasses of `FileManager` on mounts.
  @Suite struct SubclassTests {
    @Test func classesOfOverridesAreSet() throws {
      let manager = ProtectingManager()
      let attributes: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.complete]
      try Volume.with { volume in
        try manager.createDirectory(at: volume.url("a"), withIntermediateDirectories: false)
        try manager.createDirectory(at: volume.url("b/c"), withIntermediateDirectories: true, attributes: attributes)
        for name in ["a", "b", "b/c"] {
          #expect(try ProtectionClass(ofItemAt: volume.url(name).path) == .completeUnlessOpen, "\(name)")
        }
        // What is not overridden sets the class all the same.
        try manager.createDirectory(
          atPath: volume.url("d").path, withIntermediateDirectories: false, attributes: attributes)
        try manager.setAttributes(attributes, ofItemAtPath: volume.url("a").path)
        for name in ["a", "d"] { #expect(try ProtectionClass(ofItemAt: volume.url(name).path) == .complete) }
        #expect(
          manager.createFile(atPath: volume.url("file").path, contents: Data([1]), attributes: attributes))
        #expect(try ProtectionClass(ofItemAt: volume.url("file").path) == .complete)
      }
    }
  }
}
