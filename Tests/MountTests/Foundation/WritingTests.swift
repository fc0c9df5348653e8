import DataProtection
import Foundation
import ProtectfsIO
import Testing

extension Volume {
  /// The URL of a path in the mounted tree.
  func url(_ name: String) -> URL { URL(fileURLWithPath: path(name).description) }

  /// The names in a directory of the mounted tree.
  func names(_ name: String = ".") throws -> Set<String> { Set(try path(name).names().map(\.description)) }
}

/// The code of the `CocoaError` of a call; `nil` if it does not fail, or fails otherwise.
func cocoaCode(of body: () throws -> Void) -> CocoaError.Code? {
  do {
    try body()
    return nil
  } catch {
    return (error as? CocoaError)?.code
  }
}

extension MountTests {
  /// `Data.write(to:options:)` with a protection option.
  @Suite struct WritingTests {
    private static let options: [(Data.WritingOptions, ProtectionClass)] = [
      (.completeFileProtection, .complete), (.completeFileProtectionUnlessOpen, .completeUnlessOpen),
      (.completeFileProtectionUntilFirstUserAuthentication, .completeUntilFirstUserAuthentication),
      (.noFileProtection, .none), (.completeFileProtectionWhenUserInactive, .completeWhenUserInactive),
    ]
    private static let data = Data("It has its class from the first byte on.\n".utf8)

    @Test func newFilesAreInTheirClass() throws {
      try Volume.with { volume in
        for (option, protectionClass) in Self.options {
          for extra in [[], .atomic, .withoutOverwriting] as [Data.WritingOptions] {
            let url = volume.url("new-\(protectionClass.letter)-\(extra.rawValue)")
            try Self.data.write(to: url, options: extra.union(option))
            #expect(try Data(contentsOf: url) == Self.data)
            #expect(try ProtectionClass(ofItemAt: url.path) == protectionClass)
            // Copies keep it.
            #expect(try PathName(url.path).extendedAttributeNames().contains(ProtectionClass.attributeName))
            #expect(
              cocoaCode { try Self.data.write(to: url, options: [.withoutOverwriting, option]) } == .fileWriteFileExists
            )
          }
        }
        #expect(try volume.names().count == Self.options.count * 3, "something was left behind")
      }
    }

    @Test func filesThatAreThereChangeTheirClass() throws {
      try Volume.with { volume in
        for (option, protectionClass) in Self.options {
          for extra in [[], .atomic] as [Data.WritingOptions] {
            let url = volume.url("there")
            try Data("something longer than what comes, and of another class: \(option)\n".utf8).write(to: url)
            try PathName(url.path).setMode(0o640)
            let link = volume.url("link")
            try? FileManager.default.removeItem(at: link)
            try FileManager.default.createSymbolicLink(at: link, withDestinationURL: url)
            try Self.data.write(to: link, options: extra.union(option))
            #expect(try Data(contentsOf: url) == Self.data)
            #expect(try ProtectionClass(ofItemAt: url.path) == protectionClass)
            #expect(try PathName(url.path).status().mode & 0o7777 == 0o640)
            #expect(try volume.path("link").symbolicLinkTarget() == Array(url.path.utf8))
          }
        }
        #expect(try volume.names() == ["there", "link"])
      }
    }

    /// Also over a file of explicit class B, which is replaced and not opened.
    @Test func classBIsReplacedWhileLocked() throws {
      try Volume.with { volume in
        let url = volume.url("draft")
        try Data("old".utf8).write(to: url, options: .completeFileProtectionUnlessOpen)
        try volume.lock()
        for text in ["second", "third"] {
          try Data(text.utf8).write(to: url, options: [.atomic, .completeFileProtectionUnlessOpen])
          #expect(try volume.path("draft").extendedAttributeNames().contains(ProtectionClass.attributeName))
        }
        try volume.unlock()
        #expect(try Data(contentsOf: url) == Data("third".utf8))
        #expect(try ProtectionClass(ofItemAt: url.path) == .completeUnlessOpen)
        #expect(try volume.names() == ["draft"])
      }
    }

    /// A file that is created while locked can be written until it is closed.
    @Test func handlesOfNewFilesAreKept() throws {
      try Volume.with(defaultClass: .complete) { volume in
        try volume.lock()
        let url = volume.url("log")
        let handle = try FileHandle(creatingFileAt: url, protection: .completeUnlessOpen)
        for line in ["a\n", "b\n"] { try handle.write(contentsOf: Data(line.utf8)) }
        #expect(cocoaCode { _ = try FileHandle(forReadingFrom: url) } == .fileReadNoPermission)
        #expect(
          cocoaCode { _ = try FileHandle(creatingFileAt: url, protection: .completeUnlessOpen) } == .fileWriteFileExists
        )
        #expect(
          cocoaCode { _ = try FileHandle(creatingFileAt: volume.url("a"), protection: .complete) }
            == .fileWriteNoPermission)
        try handle.close()
        try volume.unlock()
        #expect(try Data(contentsOf: url) == Data("a\nb\n".utf8))
        #expect(try volume.names() == ["log"])
      }
    }

    /// An overwritten file keeps its fields, mode and owner, however it is written.
    @Test func fieldsAreKept() throws {
      try Volume.with { volume in
        for extra in [[], .atomic] as [Data.WritingOptions] {
          let url = volume.url("file-\(extra.rawValue)")
          try Data("old".utf8).write(to: url)
          try url.encryptedValues.set("me", forKey: "author")
          try PathName(url.path).setOwner(user: 65534, group: 65534)
          try PathName(url.path).setMode(0o640)
          try Self.data.write(to: url, options: extra.union(.completeFileProtection))
          #expect(try url.encryptedValues.value(forKey: "author") == "me")
          let status = try PathName(url.path).status()
          #expect(status.mode & 0o7777 == 0o640 && status.user == 65534 && status.group == 65534)
          #expect(try Data(contentsOf: url) == Self.data)
          // If they cannot be copied, nothing is written.
          try volume.lock()
          let code = cocoaCode { try Self.data.write(to: url, options: [.atomic, .completeFileProtectionUnlessOpen]) }
          #expect(code == .fileWriteNoPermission)
          try volume.unlock()
          #expect(try url.encryptedValues.value(forKey: "author") == "me")
        }
        #expect(try volume.names() == ["file-0", "file-1"])
      }
    }

    /// A file that can be used while locked can be put into class B and overwritten. Any other file is unchanged.
    @Test func overwritingIntoClassBWhileLocked() throws {
      try Volume.with { volume in
        let (open, locked) = (volume.url("open"), volume.url("locked"))
        try Data("old".utf8).write(to: open)
        try Data("old".utf8).write(to: locked, options: .completeFileProtection)
        try volume.lock()
        try Self.data.write(to: open, options: .completeFileProtectionUnlessOpen)
        #expect(
          cocoaCode { try Self.data.write(to: locked, options: .completeFileProtectionUnlessOpen) }
            == .fileWriteNoPermission)
        #expect(try ProtectionClass(ofItemAt: locked.path) == .complete)
        // It is of class B now, and cannot be opened again.
        #expect(
          cocoaCode { try Self.data.write(to: open, options: .completeFileProtectionUnlessOpen) }
            == .fileWriteNoPermission)
        try volume.unlock()
        #expect(try Data(contentsOf: open) == Self.data && Data(contentsOf: locked) == Data("old".utf8))
        #expect(try ProtectionClass(ofItemAt: open.path) == .completeUnlessOpen)
      }
    }

    /// Links are followed, even to a file that does not exist yet. Loops are an error.
    @Test func linksStay() throws {
      try Volume.with { volume in
        try volume.path("link").makeSymbolicLink(to: "target")
        try volume.path("circle").makeSymbolicLink(to: "circle")
        for extra in [[], .atomic] as [Data.WritingOptions] {
          try Self.data.write(to: volume.url("link"), options: extra.union(.completeFileProtection))
          #expect(try volume.path("link").symbolicLinkTarget() == Array("target".utf8))
          #expect(try Data(contentsOf: volume.url("target")) == Self.data)
          try volume.path("target").unlink()
          #expect(
            cocoaCode { try Self.data.write(to: volume.url("circle"), options: extra.union(.completeFileProtection)) }
              != nil)
        }
        #expect(try volume.names() == ["link", "circle"])
      }
    }

    /// What a killed program has left is removed; a write in progress is not.
    @Test func leftoversAreRemoved() throws {
      try Volume.with { volume in
        let names = (0..<3).map { _ in ".\(UUID().uuidString).staging" }
        for name in names + [".other.staging", "kept"] { try volume.path(name).makeDirectory() }
        for name in names { try volume.path("\(name)/file").write("half") }
        let used = try Descriptor.open(volume.path(names[1]), [.readOnly, .directory])
        try used.lock(isShared: false)
        for name in names[..<2] { try volume.path(name).setTimes(seconds: 1_000_000_000) }
        let root = URL(fileURLWithPath: volume.mountPoint.description)
        #expect(try FileManager.default.removeUnfinishedWrites(in: root) == 1)
        #expect(try volume.names() == [names[1], names[2], ".other.staging", "kept"])
      }
    }

    /// Files without a class are neither written nor replaced.
    @Test func otherThanFilesStay() throws {
      try Volume.with { volume in
        try volume.path("pipe").makeNode(mode: 0o010600)
        try volume.path("directory").makeDirectory()
        for name in ["pipe", "directory"] {
          let before = try volume.path(name).status()
          for option in [.completeFileProtection, [.completeFileProtection, .atomic]] as [Data.WritingOptions] {
            #expect(cocoaCode { try Self.data.write(to: volume.url(name), options: option) } != nil)
          }
          let attributes: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.complete]
          #expect(!FileManager.default.createFile(atPath: volume.url(name).path, contents: nil, attributes: attributes))
          #expect(try volume.path(name).status().inode == before.inode)
        }
        #expect(try volume.names() == ["pipe", "directory"])
      }
    }

    /// If the class cannot be used nothing is written, not even in the directory's class, which can.
    @Test func lockedClassesAreRefused() throws {
      try Volume.with { volume in
        let old = Data("old\n".utf8)
        try old.write(to: volume.url("old"), options: .completeFileProtection)
        try old.write(to: volume.url("open"))
        try volume.lock()
        let before = try volume.names()
        for option in [.completeFileProtection, [.completeFileProtection, .atomic]] as [Data.WritingOptions] {
          for name in ["new", "old", "open"] {
            let code = cocoaCode { try Self.data.write(to: volume.url(name), options: option) }
            #expect(code == .fileWriteNoPermission, "\(name) \(option)")
          }
        }
        #expect(try volume.names() == before, "something was left behind")
        #expect(try Data(contentsOf: volume.url("open")) == old)
        #expect(try ProtectionClass(ofItemAt: volume.url("open").path) == .standard)
        try volume.unlock()
        #expect(try Data(contentsOf: volume.url("old")) == old)
      }
    }

    /// Class B can be written while locked, even in a directory whose class cannot.
    @Test func classBIsWrittenWhileLocked() throws {
      try Volume.with(defaultClass: .complete) { volume in
        try volume.lock()
        #expect(cocoaCode { try Self.data.write(to: volume.url("plain")) } == .fileWriteNoPermission)
        for extra in [[], .atomic] as [Data.WritingOptions] {
          let url = volume.url("b-\(extra.rawValue)")
          try Self.data.write(to: url, options: extra.union(.completeFileProtectionUnlessOpen))
          #expect(try ProtectionClass(ofItemAt: url.path) == .completeUnlessOpen)
          #expect(cocoaCode { _ = try Data(contentsOf: url) } == .fileReadNoPermission)
        }
        try volume.unlock()
        #expect(try volume.names() == ["b-0", "b-1"])
        for name in try volume.names() { #expect(try Data(contentsOf: volume.url(name)) == Self.data) }
      }
    }

    @Test func elsewhereItIsRefused() throws {
      let directory = try TemporaryDirectory.make()
      defer { TemporaryDirectory.remove(directory) }
      let url = URL(fileURLWithPath: directory.appending("file").description)
      for (option, _) in Self.options {
        #expect(cocoaCode { try Self.data.write(to: url, options: option) } == .featureUnsupported)
      }
      #expect(try directory.names().isEmpty)
      try Self.data.write(to: url, options: .atomic)
      #expect(try Data(contentsOf: url) == Self.data)
    }
  }
}
