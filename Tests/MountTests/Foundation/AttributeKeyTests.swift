import DataProtection
import Foundation
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// `FileManager` with `.protectionKey`, and the class as a URL resource value.
  @Suite struct AttributeKeyTests {
    private static let types: [FileProtectionType] = [
      .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication, .none, .completeWhenUserInactive,
    ]

    @Test func areSetAndRead() throws {
      let manager = FileManager.default
      try Volume.with { volume in
        let url = volume.url("file")
        try Data("text".utf8).write(to: url)
        for type in Self.types {
          // As code is usually written, and with attributes from elsewhere.
          try manager.setAttributes([.protectionKey: type], ofItemAtPath: url.path)
          let attributes: [FileAttributeKey: Any] = [.protectionKey: type.rawValue, .posixPermissions: 0o600]
          try manager.setAttributes(attributes, ofItemAtPath: url.path)
          let found = try manager.attributesOfItem(atPath: url.path)
          let protection = found[.protectionKey] as? FileProtectionType
          #expect(protection?.rawValue == type.rawValue)
          #expect(found[.size] as? UInt64 == 4)
          #expect(try manager.protection(ofItemAt: url) == type)
          let value = try url.resourceValues(forKeys: [.fileProtectionKey]).fileProtection
          #expect(value?.fileProtectionType.rawValue == type.rawValue)
          #expect(try url.resourceValues(forKeys: [.fileSizeKey]).fileSize == 4)
        }
        try (url as NSURL).setResourceValue(URLFileProtection.complete, forKey: .fileProtectionKey)
        #expect(try ProtectionClass(ofItemAt: url.path) == .complete)
        try volume.lock()
        let locked = try manager.attributesOfItem(atPath: url.path)[.protectionKey] as? FileProtectionType
        #expect(locked?.rawValue == FileProtectionType.complete.rawValue)
        let code = cocoaCode {
          try manager.setAttributes([.protectionKey: FileProtectionType.none], ofItemAtPath: url.path)
        }
        #expect(code == .fileWriteNoPermission)
      }
    }

    @Test func otherValuesAndPlacesAreRefused() throws {
      let manager = FileManager.default
      let directory = try TemporaryDirectory.make()
      defer { TemporaryDirectory.remove(directory) }
      let path = directory.appending("file")
      try path.write("text")
      let attributes: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.complete, .posixPermissions: 0o600]
      #expect(
        cocoaCode { try manager.setAttributes(attributes, ofItemAtPath: path.description) } == .featureUnsupported)
      #expect(try path.status().mode & 0o777 != 0o600)
      #expect(try path.extendedAttributeNames().isEmpty)
      #expect(try manager.attributesOfItem(atPath: path.description)[.protectionKey] == nil)
      #expect(
        try URL(fileURLWithPath: path.description).resourceValues(forKeys: [.fileProtectionKey]).fileProtection == nil)
      let unknown = cocoaCode {
        try manager.setAttributes([.protectionKey: "NSFileProtectionNo"], ofItemAtPath: path.description)
      }
      #expect(unknown == .featureUnsupported)
      #expect(
        !manager.createFile(
          atPath: path.description + "2", contents: nil, attributes: [.protectionKey: FileProtectionType.complete]))
      #expect(
        cocoaCode {
          try manager.createDirectory(
            atPath: directory.appending("d").description, withIntermediateDirectories: true, attributes: attributes)
        } == .featureUnsupported)
      #expect(try directory.names() == ["file"])
      // What Foundation does itself still works.
      try manager.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path.description)
      #expect(try path.status().mode & 0o777 == 0o600)
      #expect(manager.createFile(atPath: path.description + "2", contents: Data([1])))
      try manager.createDirectory(atPath: directory.appending("a/b").description, withIntermediateDirectories: true)
      #expect(directory.appending("a/b").exists)
    }

    @Test func newItemsAreInTheirClass() throws {
      let manager = FileManager.default
      try Volume.with { volume in
        for type in Self.types {
          let name = try #require(ProtectionClass(type)).name
          let file = volume.path("file-\(name)").description
          let contents = Data("contents".utf8)
          #expect(
            manager.createFile(
              atPath: file, contents: contents, attributes: [.protectionKey: type, .posixPermissions: 0o600]))
          #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == contents)
          #expect(try ProtectionClass(ofItemAt: file).name == name)
          #expect(try PathName(file).status().mode & 0o777 == 0o600)
          try manager.createDirectory(
            at: volume.url("above-\(name)/below"), withIntermediateDirectories: true, attributes: [.protectionKey: type]
          )
          #expect(try ProtectionClass(ofItemAt: volume.path("above-\(name)").description).name == name)
          #expect(try ProtectionClass(ofItemAt: volume.path("above-\(name)/below").description).name == name)
          // An existing directory keeps its class, like its other attributes.
          try manager.createDirectory(
            at: volume.url("above-\(name)"), withIntermediateDirectories: true,
            attributes: [.protectionKey: FileProtectionType.none])
          #expect(try ProtectionClass(ofItemAt: volume.path("above-\(name)").description).name == name)
        }
      }
    }

    @Test func directoriesOnOddPathsAreMade() throws {
      let manager = FileManager.default
      let attributes: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.complete]
      try Volume.with { volume in
        let root = volume.mountPoint.description
        for path in ["\(root)/a/..", "\(root)//b///c/", "\(root)/d/./e"] {
          try manager.createDirectory(atPath: path, withIntermediateDirectories: true, attributes: attributes)
          try manager.createDirectory(atPath: path, withIntermediateDirectories: true, attributes: attributes)
        }
        for name in ["a", "b", "b/c", "d", "d/e"] {
          #expect(try ProtectionClass(ofItemAt: "\(root)/\(name)") == .complete, "\(name)")
        }
        let code = cocoaCode {
          try manager.createDirectory(atPath: "\(root)/b", withIntermediateDirectories: false, attributes: attributes)
        }
        #expect(code == .fileWriteFileExists)
      }
      let elsewhere = cocoaCode {
        try manager.createDirectory(atPath: "/tmp", withIntermediateDirectories: true, attributes: attributes)
      }
      #expect(elsewhere == .featureUnsupported)
    }

    /// Nobody finds one without its class, also who comes upon the name while another makes it.
    @Test func directoriesAppearInTheirClass() throws {
      let attributes: [FileAttributeKey: Any] = [
        .protectionKey: FileProtectionType.complete, .posixPermissions: 0o550,
      ]
      try Volume.with { volume in
        for number in 0..<50 {
          let path = volume.path("\(number)").description
          nonisolated(unsafe) let attributes = attributes
          DispatchQueue.concurrentPerform(iterations: 4) { _ in
            #expect(throws: Never.self) {
              try unsafe FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true, attributes: attributes)
              #expect(try ProtectionClass(ofItemAt: path) == .complete)
            }
          }
          #expect(try PathName(path).status().mode & 0o777 == 0o550)
        }
        try volume.path("file").write("in the way")
        let code = cocoaCode {
          try FileManager.default.createDirectory(
            at: volume.url("file"), withIntermediateDirectories: true, attributes: attributes)
        }
        #expect(code == .fileWriteFileExists)
        #expect(try volume.names().count == 51, "something was left behind")
      }
    }

    @Test func treesChangeTheirClass() throws {
      let manager = FileManager.default
      try Volume.with { volume in
        for directory in 0..<4 {
          try manager.createDirectory(at: volume.url("tree/\(directory)/deep"), withIntermediateDirectories: true)
          for file in 0..<100 { try Data().write(to: volume.url("tree/\(directory)/deep/\(file)")) }
        }
        try manager.createSymbolicLink(at: volume.url("tree/link"), withDestinationURL: volume.url("outside"))
        try Data().write(to: volume.url("outside"))
        let progress = Progress(totalUnitCount: 0)
        let result = try manager.setProtection(.complete, ofTreeAt: volume.url("tree"), progress: progress)
        #expect(result.changed == 1 + 4 * 102 && result.failures.isEmpty && !result.wasCancelled)
        #expect(progress.completedUnitCount == 1 + 4 * 102 && progress.isFinished)
        #expect(try manager.protection(ofItemAt: volume.url("tree/3/deep/99")) == .complete)
        #expect(try manager.protection(ofItemAt: volume.url("outside")) == .completeUntilFirstUserAuthentication)

        try volume.lock()
        let locked = try manager.setProtection(FileProtectionType.none, ofTreeAt: volume.url("tree"))
        #expect(locked.failures.count == 400 && locked.changed == 9)
        #expect(locked.failures.allSatisfy { $0.error.code == .fileWriteNoPermission })
        try volume.unlock()

        let cancelled = Progress(totalUnitCount: 0)
        cancelled.cancel()
        let none = try manager.setProtection(.completeUnlessOpen, ofTreeAt: volume.url("tree"), progress: cancelled)
        #expect(none.wasCancelled && none.changed == 1)
        #expect(try manager.protection(ofItemAt: volume.url("tree/3/deep/99")) == .complete)
      }
    }

    /// The loop of Apple's article "Encrypting Your App's Files".
    @Test func enumeratorsWork() throws {
      let manager = FileManager.default
      try Volume.with { volume in
        try manager.createDirectory(at: volume.url("tree/deep"), withIntermediateDirectories: true)
        try Data("a".utf8).write(to: volume.url("tree/a"))
        try Data("b".utf8).write(to: volume.url("tree/deep/b"))
        let enumerator = try #require(manager.enumerator(at: volume.url("tree"), includingPropertiesForKeys: nil))
        for case let url as URL in enumerator {
          try manager.setAttributes([.protectionKey: FileProtectionType.complete], ofItemAtPath: url.path)
        }
        for name in ["a", "deep", "deep/b"] {
          #expect(try manager.protection(ofItemAt: volume.url("tree/\(name)")) == .complete)
        }
      }
    }
  }
}
