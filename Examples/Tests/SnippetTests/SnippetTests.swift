import DataProtection
import Foundation
import Mounting
import Testing

@testable import Snippets

/// The code of the four texts does here what it did there.
@Suite(.serialized, .enabled(if: Obstacle.found == nil, Obstacle.found))
struct SnippetTests {
  private static let data = Data("dear diary".utf8)

  private static func expect(_ protectionClass: ProtectionClass, _ url: URL) throws {
    #expect(try ProtectionClass(ofItemAt: url.path) == protectionClass, "\(url.lastPathComponent)")
  }

  @Test func encryptingYourAppsFiles() async throws {
    typealias Text = EncryptingYourAppsFiles
    try await Volume.with { volume in
      let url = volume.url("diary")
      try Text.write(Self.data, to: url)
      try Self.expect(.complete, url)
      let classes: [ProtectionClass] = [.none, .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication]
      for (option, protectionClass) in zip(Text.options, classes) {
        try Text.write(Self.data, to: url, options: [option, .atomic])
        try Self.expect(protectionClass, url)
        #expect(try Text.protection(of: url) == URLFileProtection(protectionClass))
      }
      #expect(throws: CocoaError.self) {
        try Text.write(Self.data, to: url, options: [.completeFileProtection, .withoutOverwriting])
      }
      #expect(try Text.unprotectedFiles(in: volume.mountPoint) == ["diary"])
      try Text.change(url)
      try Self.expect(.complete, url)
      #expect(try Text.unprotectedFiles(in: volume.mountPoint).isEmpty)
      #expect(try Text.supportsProtection(url))
      #expect(try !Text.supportsProtection(URL(fileURLWithPath: "/tmp")))
    }
  }

  @Test func howToUseIOSDataProtection() async throws {
    typealias Text = HowToUseIOSDataProtection
    try await Volume.with { volume in
      let (directory, url) = (volume.url("app/notes"), volume.url("app/notes/diary"))
      try Text.createDirectory(directory.path)
      try Self.expect(.completeUnlessOpen, directory)
      try Self.data.write(to: volume.url("app/notes/inherits"))
      try Self.expect(.completeUnlessOpen, volume.url("app/notes/inherits"))
      #expect(Text.create(url.path, Self.data))
      try Self.expect(.complete, url)
      #expect(try Text.isComplete(url.path) && Text.value(of: url as NSURL) == .complete)
      try Text.changeAll(in: volume.url("app"))
      for name in ["app/notes", "app/notes/inherits"] { try Self.expect(.complete, volume.url(name)) }
      try Text.change(volume.url("app").path)
      // A file that is moved keeps its class, and so do those in a directory that changes its class.
      try FileManager.default.moveItem(at: url, to: volume.url("diary"))
      try Self.expect(.complete, volume.url("diary"))

      try FileManager.default.prepareDatabase(at: volume.url("store/notes.sqlite"), options: Text.options())
      try Self.expect(.complete, volume.url("store"))

      #expect(!Text.isLocked(volume.url("diary")) && !Text.cannotBeSaved(Self.data, to: volume.url("diary")))
      try volume.lock()
      #expect(Text.isLocked(volume.url("diary")) && Text.cannotBeSaved(Self.data, to: volume.url("diary")))
    }
  }

  @Test func onDiskEncryption() async throws {
    typealias Text = OnDiskEncryption
    try await Volume.with { volume in
      let url = volume.url("diary")
      try Text.write(NSData(data: Self.data), url.path)
      try Self.expect(.complete, url)
      try Self.data.write(to: url, options: Text.options)
      try Self.expect(.completeUntilFirstUserAuthentication, url)
      try Text.change(url.path)
      try Self.expect(.complete, url)
      #expect(
        Text.constants.map(ProtectionClass.init)
          == [ProtectionClass.none, .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication])
    }
  }

  @Test func insteadOfUIKit() async throws {
    try await Volume.with { volume in
      let url = volume.url("text")
      let text = ProtectedText(url)
      try text.save("dear diary")
      #expect(text.text == "dear diary")
      try Self.expect(.complete, url)
    }
  }

  @Test func encryptingUserData() async throws {
    typealias Text = EncryptingUserData
    try await Volume.with { volume in
      let zone = ProtectedZone(at: volume.url("Letters"))
      try zone.create(protection: .complete)
      let new = ProtectedRecord(named: "letter")
      Text.fill(new)
      try zone.save(new)
      let record = try zone.record(named: "letter")
      #expect(Text.author(of: record) == "Ana" && Text.tags(of: record) == ["a", "b"])
      #expect(Text.keys(of: record) == Text.keys(of: new) && Text.keys(of: record).count == 13)
      #expect(record.encryptedValues["pages"] as? Int == 12 && record.encryptedValues["size"] as? Int64 == 1 << 40)
      #expect(record.encryptedValues["weight"] as? Float == 2.5 && record.encryptedValues["sent"] as? Bool == true)
      #expect(record.encryptedValues["title"] as? String == "Letter" && record.encryptedValues["stamps"] as? Int == 3)
      #expect(record.encryptedValues["image"] as? Data == Data([4]))
      try volume.lock()
      #expect(throws: CocoaError.self) { try zone.record(named: "letter") }
      #expect(try zone.recordNames() == ["letter"])
    }
  }
}
