import DataProtection
import Foundation
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// Calls that Foundation on Linux answers with success while the class or the fields of a file are lost.
  @Suite struct SilentLossTests {
    private static let data = Data("It keeps what protects it.\n".utf8)

    /// `NSData.write` in all its forms, also of a subclass and of a bridged value.
    @Test func classesOfNSDataAreSet() throws {
      let data = Self.data as NSData
      try Volume.with { volume in
        for extra in [[], .atomic, .withoutOverwriting] as [NSData.WritingOptions] {
          let (url, path) = (volume.url("url-\(extra.rawValue)"), volume.url("path-\(extra.rawValue)").path)
          try data.write(to: url, options: extra.union(.completeFileProtection))
          try data.write(toFile: path, options: extra.union(.completeFileProtection))
          for written in [url.path, path] {
            #expect(try ProtectionClass(ofItemAt: written) == .complete)
            #expect(try Data(contentsOf: URL(fileURLWithPath: written)) == Self.data)
          }
        }
        try NSMutableData(data: Self.data).write(to: volume.url("mutable"), options: .completeFileProtectionUnlessOpen)
        #expect(try ProtectionClass(ofItemAt: volume.url("mutable").path) == .completeUnlessOpen)
        try (Self.data as NSData).write(to: volume.url("bridged"), options: [.completeFileProtection])
        #expect(try ProtectionClass(ofItemAt: volume.url("bridged").path) == .complete)
        try volume.lock()
        let code = cocoaCode { try data.write(to: volume.url("new"), options: .completeFileProtection) }
        #expect(code == .fileWriteNoPermission)
        #expect(!volume.path("new").exists)
      }
    }

    /// What an override calls by way of `super` is this module's, whoever calls the override.
    @Test func overridesThatNameAClassSetIt() throws {
      final class Sealing: FileManager, @unchecked Sendable {
        private let sealed: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.complete]

        override func createFile(atPath path: String, contents: Data?, attributes: [FileAttributeKey: Any]?) -> Bool {
          super.createFile(atPath: path, contents: contents, attributes: sealed)
        }
        override func createDirectory(
          atPath path: String, withIntermediateDirectories: Bool, attributes: [FileAttributeKey: Any]?
        ) throws {
          try super.createDirectory(atPath: path, withIntermediateDirectories: false, attributes: sealed)
        }
        override func setAttributes(_ attributes: [FileAttributeKey: Any], ofItemAtPath path: String) throws {
          try super.setAttributes(sealed.merging(attributes) { $1 }, ofItemAtPath: path)
        }
      }
      try Volume.with { volume in
        for files in [Sealing(), FileManager.default] {
          // A name would keep the class of a file that has just left it.
          let (file, directory) = (volume.url("file of \(type(of: files))").path, volume.url("directory").path)
          try Data().write(to: volume.url("set"), options: .completeFileProtectionUnlessOpen)
          let isSealing = files is Sealing
          #expect(files.createFile(atPath: file, contents: Self.data, attributes: nil))
          try files.createDirectory(atPath: directory, withIntermediateDirectories: false)
          try files.setAttributes([.posixPermissions: 0o600], ofItemAtPath: volume.url("set").path)
          for path in [file, directory, volume.url("set").path] {
            #expect(try (ProtectionClass(ofItemAt: path) == .complete) == isSealing, "\(path) \(isSealing)")
          }
          // By way of Foundation's method, as from a module without the import.
          let create: (String, Data?, [FileAttributeKey: Any]?) -> Bool = files.createFile
          #expect(create(file, nil, nil))
          #expect(try (ProtectionClass(ofItemAt: file) == .complete) == isSealing)
          for path in [file, directory] { try FileManager.default.removeItem(atPath: path) }
        }
      }
    }

    /// Foundation replaces the file when it writes atomically.
    @Test func atomicWritesKeepFieldsAndClass() throws {
      let text = String(decoding: Self.data, as: UTF8.self)
      let writes: [(String, (URL) throws -> Void)] = [
        ("Data", { try Self.data.write(to: $0, options: .atomic) }),
        ("NSData", { try (Self.data as NSData).write(to: $0, options: .atomic) }),
        ("NSData path", { try (Self.data as NSData).write(toFile: $0.path, options: .atomic) }),
        ("NSData atomically", { #expect((Self.data as NSData).write(to: $0, atomically: true)) }),
        ("NSData path atomically", { #expect((Self.data as NSData).write(toFile: $0.path, atomically: true)) }),
        ("String", { try text.write(to: $0, atomically: true, encoding: .utf8) }),
        ("String path", { try text.write(toFile: $0.path, atomically: true, encoding: .utf8) }),
        ("Substring", { try text.dropFirst(0).write(to: $0, atomically: true, encoding: .utf8) }),
        ("NSString", { try (text as NSString).write(to: $0, atomically: true, encoding: 4) }),
      ]
      try Volume.with(["-o", "allow_other,replace_class=move"]) { volume in
        for (name, write) in writes {
          for protectionClass in [nil, ProtectionClass.complete] {
            let url = volume.url("\(name) \(protectionClass?.letter ?? "-")")
            try Data("old".utf8).write(to: url)
            try url.encryptedValues.set("me", forKey: "author")
            try protectionClass?.assign(toItemAt: url.path)
            try PathName(url.path).setMode(0o640)
            try write(url)
            #expect(try url.encryptedValues.value(forKey: "author") == "me", "\(url.lastPathComponent)")
            #expect(try ProtectionClass(ofItemAt: url.path) == protectionClass ?? .standard, "\(name)")
            #expect(try PathName(url.path).status().mode & 0o777 == 0o640)
            #expect(try Data(contentsOf: url) == Self.data)
            let isExplicit = try PathName(url.path).extendedAttributeNames().contains(ProtectionClass.attributeName)
            #expect(isExplicit == (protectionClass != nil), "\(name)")
          }
        }
        #expect(try volume.names().count == writes.count * 2, "something was left behind")
      }
    }

    @Test func copiesKeepFieldsAndClass() throws {
      let manager = FileManager.default
      try Volume.with { volume in
        let url = volume.url("diary")
        try Self.data.write(to: url, options: .completeFileProtection)
        try url.encryptedValues.set("me", forKey: "author")
        try manager.copyItem(at: url, to: volume.url("copy"))
        try manager.copyItem(atPath: url.path, toPath: volume.url("copy by path").path)
        for name in ["copy", "copy by path"] {
          #expect(try volume.url(name).encryptedValues.value(forKey: "author") == "me")
          #expect(try ProtectionClass(ofItemAt: volume.url(name).path) == .complete)
          #expect(try Data(contentsOf: volume.url(name)) == Self.data)
        }
        // An inherited class is inherited again.
        try volume.path("letters").makeDirectory(of: .complete)
        try Self.data.write(to: volume.url("letters/inherited"))
        try manager.copyItem(at: volume.url("letters/inherited"), to: volume.url("inherited"))
        #expect(try ProtectionClass(ofItemAt: volume.url("inherited").path) == .standard)
        #expect(try volume.names() == ["diary", "copy", "copy by path", "letters", "inherited"])
      }
    }

    /// A file that is locked away must not lie around as plaintext.
    @Test func protectedFilesAreNotCopiedToPlaintext() throws {
      let elsewhere = try TemporaryDirectory.make()
      defer { TemporaryDirectory.remove(elsewhere) }
      let target = URL(fileURLWithPath: elsewhere.appending("copy").description)
      try Volume.with { volume in
        let url = volume.url("diary")
        try Self.data.write(to: url, options: .completeFileProtection)
        #expect(cocoaCode { try FileManager.default.copyItem(at: url, to: target) } == .featureUnsupported)
        #expect(cocoaCode { try FileManager.default.moveItem(at: url, to: target) } == .featureUnsupported)
        #expect(try elsewhere.names().isEmpty)
        #expect(try Data(contentsOf: url) == Self.data)
      }
    }

    @Test func movesBetweenMountsKeepFieldsAndClass() throws {
      let manager = FileManager.default
      try Volume.with { volume in
        try Volume.with { other in
          let url = volume.url("diary")
          try Self.data.write(to: url, options: .completeFileProtection)
          try url.encryptedValues.set("me", forKey: "author")
          try manager.moveItem(at: url, to: other.url("diary"))
          #expect(!volume.path("diary").exists)
          #expect(try other.url("diary").encryptedValues.value(forKey: "author") == "me")
          #expect(try ProtectionClass(ofItemAt: other.url("diary").path) == .complete)
          #expect(try Data(contentsOf: other.url("diary")) == Self.data)
        }
      }
    }

    /// Foundation 6.3 exchanges both files, and then removes the new content.
    @Test func replacementsArrive() throws {
      let manager = FileManager.default
      try Volume.with { volume in
        let (url, new) = (volume.url("diary"), volume.url("new"))
        try Data("old".utf8).write(to: url, options: .completeFileProtection)
        try url.encryptedValues.set("me", forKey: "author")
        try Self.data.write(to: new)
        #expect(try manager.replaceItemAt(url, withItemAt: new) == url)
        #expect(try Data(contentsOf: url) == Self.data)
        #expect(try ProtectionClass(ofItemAt: url.path) == .complete)
        #expect(try url.encryptedValues.value(forKey: "author") == "me")
        #expect(try volume.names() == ["diary"])
      }
    }

    /// The fields of a file whose key was revoked cannot be read, and must not prevent its recreation.
    @Test func revokedFilesWithFieldsAreRecreated() throws {
      let manager = FileManager.default
      try Volume.with { volume in
        let url = volume.url("diary")
        try Data("lost\n".utf8).write(to: url, options: .completeFileProtection)
        try url.encryptedValues.set("me", forKey: "author")
        let erased = try volume.command(
          "erase", "--class", "complete", "--yes", "--passcode-file", volume.passcodeFile.description)
        try #require(erased.succeeded, "\(erased.output)")
        try manager.recreateRevokedItem(at: url) { try Self.data.write(to: $0) }
        #expect(try Data(contentsOf: url) == Self.data)
        #expect(try manager.protection(ofItemAt: url) == .complete)
        #expect(try url.encryptedValues.allKeys().isEmpty)
        #expect(try volume.names() == ["diary"])
      }
    }
  }
}
