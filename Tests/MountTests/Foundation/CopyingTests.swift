import DataProtection
import Foundation
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// `copyItem`, `moveItem` and `replaceItemAt` on mounts: trees, locks, and places that are no mount.
  @Suite struct CopyingTests {
    private let manager = FileManager.default

    /// A tree with explicit classes, inherited ones, and fields of files and directories.
    private func makeTree(in volume: Volume) throws {
      try volume.path("tree").makeDirectory(of: .completeUntilFirstUserAuthentication)
      try volume.path("tree/letters").makeDirectory(of: .complete)
      try Data("inherited A".utf8).write(to: volume.url("tree/letters/a"))
      try Data("explicit C".utf8).write(
        to: volume.url("tree/letters/c"), options: .completeFileProtectionUntilFirstUserAuthentication)
      try Data("explicit A".utf8).write(to: volume.url("tree/secret"), options: .completeFileProtection)
      try volume.url("tree/secret").encryptedValues.set("me", forKey: "author")
      try volume.url("tree/letters").encryptedValues.set(2, forKey: "count")
      try Data("plain".utf8).write(to: volume.url("tree/plain"))
      try volume.path("tree/link").makeSymbolicLink(to: "secret")
    }

    private func expectTree(_ name: String, on volume: Volume) throws {
      let classes: [(String, ProtectionClass)] = [
        ("letters", .complete), ("letters/a", .complete), ("letters/c", .completeUntilFirstUserAuthentication),
        ("secret", .complete), ("plain", .completeUntilFirstUserAuthentication),
      ]
      for (item, protectionClass) in classes {
        #expect(try ProtectionClass(ofItemAt: volume.url("\(name)/\(item)").path) == protectionClass, "\(item)")
      }
      #expect(try volume.url("\(name)/secret").encryptedValues.value(forKey: "author") == "me")
      #expect(try volume.url("\(name)/letters").encryptedValues.value(forKey: "count") == 2)
      #expect(try Data(contentsOf: volume.url("\(name)/letters/c")) == Data("explicit C".utf8))
      #expect(try Data(contentsOf: volume.url("\(name)/link")) == Data("explicit A".utf8))
      #expect(try volume.path("\(name)/plain").extendedAttributeNames().isEmpty)
    }

    @Test func treesKeepTheirClasses() throws {
      try Volume.with { volume in
        try makeTree(in: volume)
        try manager.copyItem(at: volume.url("tree"), to: volume.url("copy"))
        try expectTree("copy", on: volume)
        // In a directory whose class is locked, that of the tree is not.
        try volume.path("A").makeDirectory(of: .complete)
        try manager.copyItem(at: volume.url("tree"), to: volume.url("A/copy"))
        try expectTree("A/copy", on: volume)
        #expect(try volume.names() == ["tree", "copy", "A"] && volume.names("A") == ["copy"])
        // To another mount and back, and moved there.
        try Volume.with(defaultClass: .complete) { other in
          try manager.copyItem(at: volume.url("tree"), to: other.url("tree"))
          try expectTree("tree", on: other)
          try manager.moveItem(at: other.url("tree"), to: volume.url("back"))
          try expectTree("back", on: volume)
          #expect(try other.names().isEmpty)
          try manager.moveItem(at: volume.url("back/letters/a"), to: volume.url("a"))
          #expect(try ProtectionClass(ofItemAt: volume.url("a").path) == .complete)
        }
      }
    }

    /// Nothing of it stays, whichever class is locked.
    @Test func lockedTreesAreNotCopied() throws {
      try Volume.with { volume in
        try makeTree(in: volume)
        try volume.path("A").makeDirectory(of: .complete)
        try volume.lock()
        let before = try volume.names()
        for source in ["tree", "tree/letters", "tree/secret", "tree/letters/a"] {
          #expect(
            cocoaCode { try manager.copyItem(at: volume.url(source), to: volume.url("copy")) } == .fileReadNoPermission,
            "\(source)")
          #expect(try volume.names() == before)
        }
        // The class of the directory is, that of the file is not.
        #expect(
          cocoaCode { try manager.copyItem(at: volume.url("tree/plain"), to: volume.url("A/plain")) }
            == .fileWriteNoPermission)
        #expect(try volume.names("A").isEmpty)
        try manager.copyItem(at: volume.url("tree/letters/c"), to: volume.url("A/c"))
        #expect(try Data(contentsOf: volume.url("A/c")) == Data("explicit C".utf8))
        let error = #expect(throws: CocoaError.self) {
          try manager.copyItem(at: volume.url("tree"), to: volume.url("copy"))
        }
        let reason = try #require(error.flatMap { ProtectedDataError(diagnosing: $0)?.reason })
        #expect(reason == .locked(.complete, until: .unlock))
        // A target that is locked, on another mount.
        try Volume.with(unlocked: false) { other in
          #expect(
            cocoaCode { try manager.copyItem(at: volume.url("tree/plain"), to: other.url("plain")) }
              == .fileWriteNoPermission)
          #expect(
            cocoaCode { try manager.moveItem(at: volume.url("tree/plain"), to: other.url("plain")) }
              == .fileWriteNoPermission)
          let names = try other.names()
          #expect(names.isEmpty)
          #expect(try Data(contentsOf: volume.url("tree/plain")) == Data("plain".utf8))
        }
      }
    }

    /// A lock while a large file is copied.
    @Test func aLockEndsACopy() throws {
      try Volume.with { volume in
        let size = 1 << 28
        try Data(repeating: 7, count: size).write(to: volume.url("large"), options: .completeFileProtection)
        let program = try Program(
          [Command.beside("FoundationProbe"), "0", "copy", volume.url("large").path, volume.url("copy").path],
          output: volume.directory.appending("copied"))
        // What is staged is there, and so a file of class A is to be removed while it is locked.
        func isStaged() throws -> Bool {
          try volume.names().subtracting(["large", "copy"]).contains { try !volume.names($0).isEmpty }
        }
        #expect(try eventually(isStaged))
        program.send(SIGSTOP)
        #expect(try isStaged())
        try volume.lock()
        program.send(SIGCONT)
        _ = program.wait()
        #expect(program.output == "cocoa 257\n")
        #expect(try volume.names() == ["large"])
      }
    }

    @Test func plaintextIsCopiedIfPermitted() throws {
      let elsewhere = try TemporaryDirectory.make()
      defer { TemporaryDirectory.remove(elsewhere) }
      func url(_ name: String) -> URL { URL(fileURLWithPath: elsewhere.appending(name).description) }
      try Volume.with { volume in
        try makeTree(in: volume)
        // What a lock leaves usable is copied as on any system.
        try manager.copyItem(at: volume.url("tree/plain"), to: url("plain"))
        for source in ["tree", "tree/letters", "tree/letters/a", "tree/secret"] {
          #expect(
            cocoaCode { try manager.copyItem(at: volume.url(source), to: url("copy")) } == .featureUnsupported,
            "\(source)")
        }
        try volume.url("tree/plain").encryptedValues.set("me", forKey: "author")
        #expect(
          cocoaCode { try manager.copyItem(at: volume.url("tree/plain"), to: url("copy")) } == .featureUnsupported)
        #expect(
          cocoaCode { try manager.replaceItemAt(url("plain"), withItemAt: volume.url("tree/secret")) }
            == .featureUnsupported)
        #expect(try elsewhere.names() == ["plain"])
        #expect(try Data(contentsOf: url("plain")) == Data("plain".utf8))
        try manager.copyItem(at: volume.url("tree"), to: url("copy"), allowingPlaintext: true)
        #expect(try Data(contentsOf: url("copy/secret")) == Data("explicit A".utf8))
        #expect(try elsewhere.appending("copy/secret").extendedAttributeNames().isEmpty)
        // And back, where it inherits.
        try manager.copyItem(at: url("copy/secret"), to: volume.url("tree/letters/back"))
        #expect(try ProtectionClass(ofItemAt: volume.url("tree/letters/back").path) == .complete)
        try manager.moveItem(at: url("copy"), to: volume.url("moved"))
        #expect(try Data(contentsOf: volume.url("moved/link")) == Data("explicit A".utf8))
        #expect(try elsewhere.names() == ["plain"])
      }
    }

    /// A tree on the disk, with a mount in it.
    @Test func mountsInTreesCount() throws {
      let elsewhere = try TemporaryDirectory.make()
      defer { TemporaryDirectory.remove(elsewhere) }
      let copy = URL(fileURLWithPath: elsewhere.appending("copy").description)
      try Volume.with { volume in
        try Data("secret".utf8).write(to: volume.url("secret"), options: .completeFileProtection)
        let directory = URL(fileURLWithPath: volume.directory.description)
        #expect(cocoaCode { try manager.copyItem(at: directory, to: copy) } == .featureUnsupported)
        #expect(try elsewhere.names().isEmpty)
      }
    }

    @Test func replacementsKeepClassesAndBackups() throws {
      try Volume.with { volume in
        let (url, new) = (volume.url("diary"), volume.url("new"))
        for (number, options) in ([.usingNewMetadataOnly, []] as [FileManager.ItemReplacementOptions]).enumerated() {
          try Data("old".utf8).write(to: url, options: [.atomic, .completeFileProtection])
          try url.encryptedValues.set("me", forKey: "author")
          try Data("new".utf8).write(to: new)
          try new.encryptedValues.set(number, forKey: "number")
          try manager.replaceItemAt(
            url, withItemAt: new, backupItemName: "backup", options: options.union(.withoutDeletingBackupItem))
          for item in [url, volume.url("backup")] {
            #expect(try ProtectionClass(ofItemAt: item.path) == .complete)
          }
          #expect(try Data(contentsOf: volume.url("backup")) == Data("old".utf8))
          #expect(try volume.url("backup").encryptedValues.value(forKey: "author") == "me")
          #expect(try url.encryptedValues.value(forKey: "number") == number)
          #expect(try url.encryptedValues.value(forKey: "author") == (options.isEmpty ? "me" : nil))
          #expect(try volume.names() == ["diary", "backup"])
        }
        // An explicit class of the new file wins.
        try Data("new".utf8).write(to: new, options: .noFileProtection)
        try manager.replaceItemAt(url, withItemAt: new, options: .usingNewMetadataOnly)
        #expect(try ProtectionClass(ofItemAt: url.path) == ProtectionClass.none)
      }
    }

    @Test func lockedFilesAreNotReplaced() throws {
      try Volume.with { volume in
        let (url, new) = (volume.url("diary"), volume.url("new"))
        try Data("old".utf8).write(to: url, options: .completeFileProtection)
        try url.encryptedValues.set("me", forKey: "author")
        try volume.lock()
        try Data("new".utf8).write(to: new)
        for options in [[], .usingNewMetadataOnly] as [FileManager.ItemReplacementOptions] {
          #expect(
            cocoaCode { try manager.replaceItemAt(url, withItemAt: new, options: options) } == .fileWriteNoPermission)
          #expect(try Data(contentsOf: new) == Data("new".utf8))
          #expect(try ProtectionClass(ofItemAt: new.path) == .standard)
        }
        try volume.unlock()
        #expect(try Data(contentsOf: url) == Data("old".utf8))
        #expect(try volume.names() == ["diary", "new"])
      }
    }

    /// Directories exchange their names; from elsewhere they are copied.
    @Test func directoriesAreReplaced() throws {
      let elsewhere = try TemporaryDirectory.make()
      defer { TemporaryDirectory.remove(elsewhere) }
      try Volume.with { volume in
        try volume.path("record").makeDirectory(of: .complete)
        try volume.url("record").encryptedValues.set("me", forKey: "author")
        try Data("old".utf8).write(to: volume.url("record/old"))
        let new = URL(fileURLWithPath: elsewhere.appending("new").description)
        try manager.createDirectory(at: new, withIntermediateDirectories: true)
        try Data("new".utf8).write(to: new.appendingPathComponent("new"))
        try manager.replaceItemAt(volume.url("record"), withItemAt: new)
        #expect(try volume.names() == ["record"] && volume.names("record") == ["new"])
        #expect(try ProtectionClass(ofItemAt: volume.url("record").path) == .complete)
        #expect(try volume.url("record").encryptedValues.value(forKey: "author") == "me")
        #expect(try elsewhere.names().isEmpty)
      }
    }

    /// Others may replace what is in a directory that they may write, and not read what they may not.
    @Test func permissionsStillCount() throws {
      try Volume.with { volume in
        try volume.mountPoint.setMode(0o755)
        let directory = volume.path("shared")
        try directory.makeDirectory(of: .completeUntilFirstUserAuthentication)
        try directory.setMode(0o777)
        try Data("others".utf8).write(to: volume.url("shared/others"))
        try PathName(volume.url("shared/others").path).setMode(0o600)
        let result = try Program.run([
          Command.beside("FoundationProbe"), "65534", "copy", volume.url("shared/others").path,
          volume.url("shared/copy").path,
        ])
        #expect(result.output == "cocoa 257\n")
        #expect(try volume.names("shared") == ["others"])
      }
    }
  }
}
