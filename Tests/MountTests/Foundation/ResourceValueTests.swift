import DataProtection
import Foundation
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// The class as a resource value, alone and among others.
  @Suite struct ResourceValueTests {
    private static let protections: [URLFileProtection] = [
      .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication, .none, .completeWhenUserInactive,
    ]

    @Test func classesAreSetAndReadAmongOtherValues() throws {
      try Volume.with { volume in
        let url = volume.url("file")
        try Data("text".utf8).write(to: url)
        for protection in Self.protections {
          try (url as NSURL).setResourceValue(protection, forKey: .fileProtectionKey)
          let values: URLResourceValues = try url.resourceValues(
            forKeys: [.fileProtectionKey, .fileSizeKey, .isDirectoryKey, .volumeSupportsFileProtectionKey])
          #expect(values.fileProtection == protection)
          #expect(values.fileSize == 4 && values.isDirectory == false)
          #expect(values.volumeSupportsFileProtection == true)
          #expect(try url.resourceValues(forKeys: [.fileProtectionKey]).fileProtection == protection)
          #expect(try ProtectionClass(ofItemAt: url.path).foundationName == protection.fileProtectionType.rawValue)
        }
        // Only what was requested.
        let size = try url.resourceValues(forKeys: [.fileSizeKey])
        #expect(size.fileProtection == nil && size.volumeSupportsFileProtection == nil && size.allValues.count == 1)
        #expect(try url.resourceValues(forKeys: [.volumeSupportsFileProtectionKey]).fileProtection == nil)
      }
    }

    @Test func objectsOfNSURL() throws {
      try Volume.with { volume in
        let url = volume.url("file")
        try Data("text".utf8).write(to: url, options: .completeFileProtection)
        var value: AnyObject?
        try (url as NSURL).getResourceValue(&value, forKey: .fileProtectionKey)
        #expect(value as? URLFileProtection == .complete && value as? String == URLFileProtection.complete.rawValue)
        try (url as NSURL).getResourceValue(&value, forKey: .volumeSupportsFileProtectionKey)
        #expect(value as? Bool == true)
        try (url as NSURL).getResourceValue(&value, forKey: .fileSizeKey)
        #expect(value as? Int == 4)
        let values = try (url as NSURL).resourceValues(forKeys: [.fileProtectionKey, .fileSizeKey])
        #expect(values[.fileProtectionKey] as? URLFileProtection == .complete && values[.fileSizeKey] as? Int == 4)

        // By its raw value, and among others.
        try (url as NSURL).setResourceValue("NSURLFileProtectionNone", forKey: .fileProtectionKey)
        #expect(try ProtectionClass(ofItemAt: url.path) == ProtectionClass.none)
        let date = Date(timeIntervalSince1970: 1_000_000_000)
        try (url as NSURL).setResourceValues([
          .fileProtectionKey: URLFileProtection.completeUnlessOpen, .contentModificationDateKey: date,
        ])
        #expect(try ProtectionClass(ofItemAt: url.path) == .completeUnlessOpen)
        #expect(try url.resourceValues(forKeys: [.contentModificationDateKey]).contentModificationDate == date)
        for wrong in ["NSFileProtectionComplete", 7, nil] as [Any?] {
          let code = cocoaCode { try (url as NSURL).setResourceValue(wrong, forKey: .fileProtectionKey) }
          #expect(code == .featureUnsupported)
        }
        #expect(try ProtectionClass(ofItemAt: url.path) == .completeUnlessOpen)
      }
    }

    /// The class is carried in the quarantine properties, which would replace it without a word.
    @Test func quarantinePropertiesAreRefused() throws {
      try Volume.with { volume in
        let url = volume.url("file")
        try Data().write(to: url)
        let before = try ProtectionClass(ofItemAt: url.path)
        for isClassFirst in [true, false] {
          var values = URLResourceValues()
          if isClassFirst { values.fileProtection = .complete }
          values.quarantineProperties = ["LSQuarantineAgentName": "Mail"]
          if !isClassFirst { values.fileProtection = .complete }
          #expect(cocoaCode { try url.setResourceValues(values) } == .featureUnsupported)
          #expect(try ProtectionClass(ofItemAt: url.path) == before)
        }
      }
    }

    /// The values of one file can be given to another.
    @Test func valuesAreSetTogether() throws {
      try Volume.with { volume in
        let date = Date(timeIntervalSince1970: 1_000_000_000)
        for name in ["from", "to"] { try Data().write(to: volume.url(name)) }
        var values = URLResourceValues()
        values.fileProtection = .complete
        values.contentModificationDate = date
        var url = volume.url("from")
        try url.setResourceValues(values)
        let read = try url.resourceValues(forKeys: [.fileProtectionKey, .contentModificationDateKey])
        #expect(read.fileProtection == .complete && read.contentModificationDate == date)
        url = volume.url("to")
        try url.setResourceValues(read)
        #expect(try ProtectionClass(ofItemAt: url.path) == .complete)
        #expect(try url.resourceValues(forKeys: [.contentModificationDateKey]).contentModificationDate == date)
        // If the class cannot be set, neither are the others.
        try volume.lock()
        values.fileProtection = .completeUnlessOpen
        values.contentModificationDate = .now
        #expect(cocoaCode { try url.setResourceValues(values) } == .fileWriteNoPermission)
        #expect(try url.resourceValues(forKeys: [.contentModificationDateKey]).contentModificationDate == date)
      }
    }

    /// Enumerators take the keys; links have no class, and those that lead nowhere are no error.
    @Test func itemsOfEnumerators() throws {
      let manager = FileManager.default
      try Volume.with { volume in
        try volume.path("tree").makeDirectory()
        try volume.path("tree/deep").makeDirectory(of: .completeUnlessOpen)
        try Data().write(to: volume.url("tree/deep/inherits"))
        try Data().write(to: volume.url("tree/own"), options: .completeFileProtection)
        try volume.path("tree/link").makeSymbolicLink(to: "nowhere")
        let keys: Set<URLResourceKey> = [.fileProtectionKey, .isDirectoryKey]
        let enumerator = try #require(
          manager.enumerator(at: volume.url("tree"), includingPropertiesForKeys: Array(keys)))
        var found: [String: URLFileProtection?] = [:]
        for case let url as URL in enumerator {
          let values = try url.resourceValues(forKeys: keys)
          #expect(values.isDirectory == (url.lastPathComponent == "deep"))
          found[url.lastPathComponent] = values.fileProtection
        }
        #expect(
          found == [
            "deep": .completeUnlessOpen, "inherits": .completeUnlessOpen, "own": .complete,
            "link": URLFileProtection?.none,
          ])
        for url in try manager.contentsOfDirectory(
          at: volume.url("tree/deep"), includingPropertiesForKeys: [.fileProtectionKey])
        {
          #expect(try url.resourceValues(forKeys: keys).fileProtection == .completeUnlessOpen)
        }
      }
    }

    /// The values are those of a link itself.
    @Test func linksAreNotFollowed() throws {
      try Volume.with { volume in
        try Data().write(to: volume.url("file"), options: .noFileProtection)
        try volume.path("link").makeSymbolicLink(to: "file")
        try volume.path("dangling").makeSymbolicLink(to: "nowhere")
        for name in ["link", "dangling"] {
          let url = volume.url(name)
          let code = cocoaCode {
            try (url as NSURL).setResourceValue(URLFileProtection.complete, forKey: .fileProtectionKey)
          }
          #expect(code == .featureUnsupported, "\(name)")
          let values = try url.resourceValues(forKeys: [.fileProtectionKey, .volumeSupportsFileProtectionKey])
          #expect(values.fileProtection == nil && values.volumeSupportsFileProtection == true, "\(name)")
        }
        #expect(try ProtectionClass(ofItemAt: volume.url("file").path) == ProtectionClass.none)
      }
    }

    /// Who may not read a file may not read its class, but the values that others have of it.
    @Test(.enabled(if: getuid() == 0, "only root can be other users")) func filesOfOthers() throws {
      try Volume.with { volume in
        let url = volume.url("private")
        try Data("text".utf8).write(to: url)
        try volume.mountPoint.setMode(0o755)
        try volume.path("private").setMode(0o600)
        try Identity.stranger.perform { () throws(Errno) in
          let values = try? url.resourceValues(
            forKeys: [.fileProtectionKey, .fileSizeKey, .volumeSupportsFileProtectionKey])
          #expect(values?.fileSize == 4 && values?.volumeSupportsFileProtection == true)
          #expect(values?.fileProtection == nil)
        }
      }
    }

    @Test func elsewhereThereIsNoClass() throws {
      let directory = try TemporaryDirectory.make()
      defer { TemporaryDirectory.remove(directory) }
      let url = URL(fileURLWithPath: directory.description)
      let values = try url.resourceValues(
        forKeys: [.fileProtectionKey, .volumeSupportsFileProtectionKey, .isDirectoryKey])
      #expect(values.fileProtection == nil && values.volumeSupportsFileProtection == false)
      #expect(values.isDirectory == true)
      var value: AnyObject? = NSString(string: "old")
      try (url as NSURL).getResourceValue(&value, forKey: .fileProtectionKey)
      #expect(value == nil)
      let code = cocoaCode {
        try (url as NSURL).setResourceValue(URLFileProtection.complete, forKey: .fileProtectionKey)
      }
      #expect(code == .featureUnsupported)
      let missing = URL(fileURLWithPath: directory.appending("missing").description)
      for keys in [[.fileProtectionKey], [.fileProtectionKey, .fileSizeKey]] as [Set<URLResourceKey>] {
        #expect(cocoaCode { _ = try missing.resourceValues(forKeys: keys) } == .fileReadNoSuchFile)
      }
    }
  }
}
