import DataProtection
import Foundation
import Glibc
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// The reasons why a file cannot be used are distinguished: a locked class, mode bits, a revoked key.
  @Suite struct DiagnosisTests {
    /// `nobody`
    private static let user: UInt32 = 65534

    @Test func reasonsAreToldApart() throws {
      try Volume.with(unlocked: false) { volume in
        try volume.mountPoint.setMode(0o755)
        try volume.unlock()
        let directory = volume.path("documents")
        try directory.makeDirectory(of: .complete)
        try directory.setOwner(user: Self.user, group: Self.user)
        for name in ["file", "others"] { try directory.appending(name).write("Foundation was here\n") }
        try directory.appending("file").setOwner(user: Self.user, group: Self.user)
        try directory.appending("others").setMode(0o600)
        let calls = ["read-data", "read-handle", "write", "write-atomic"]
        func expect(_ name: String, _ calls: [String], _ answer: (String) -> String) throws {
          for call in calls {
            let result = try Program.run([
              Command.beside("FoundationProbe"), "\(Self.user)", "diagnose-" + call,
              directory.appending(name).description,
            ])
            #expect(result.output == answer(call) + "\n", "\(name) \(call)")
          }
        }
        func code(_ call: String) -> Int { call.hasPrefix("read") ? 257 : 513 }
        try expect("file", calls) { _ in "ok" }
        try expect("others", ["read-data", "write"]) { "permissions \(code($0))" }
        try volume.lock()
        try expect("file", calls) { "locked A unlock \(code($0))" }
        try expect("new", ["write", "write-atomic"]) { "locked A unlock \(code($0))" }
        try expect("missing", ["read-data"]) { _ in "undiagnosed" }
        try volume.remount()
        try expect("file", calls) { "locked A firstUnlock \(code($0))" }
        try volume.unlock()
        let erased = try volume.command(
          "erase", "--class", "complete", "--yes", "--passcode-file", volume.passcodeFile.description)
        #expect(erased.succeeded, "\(erased.output)")
        try expect("file", ["read-data", "read-handle"]) { _ in "keyRevoked 256" }
        try expect("file", ["write"]) { _ in "keyRevoked 512" }
      }
    }

    /// A requested class may be locked when the file's own is not.
    @Test func theClassAskedForIsNamed() throws {
      try Volume.with { volume in
        let open = volume.url("open")
        try Data("text".utf8).write(to: open)
        try FileManager.default.setProtection(.completeUntilFirstUserAuthentication, ofItemAt: open)
        try volume.lock()
        func reason(_ body: () throws -> Void) -> ProtectedDataError.Reason? {
          do {
            try body()
            return nil
          } catch {
            return ProtectedDataError(diagnosing: error)?.reason
          }
        }
        let data = Data("new".utf8)
        let calls: [(ProtectionClass, () throws -> Void)] = [
          (.complete, { try data.write(to: volume.url("new"), options: .completeFileProtection) }),
          (.complete, { try data.write(to: open, options: [.atomic, .completeFileProtection]) }),
          (.complete, { try FileManager.default.setProtection(.complete, ofItemAt: open) }),
          (.complete, { _ = try FileHandle(creatingFileAt: volume.url("new"), protection: .complete) }),
          (.completeUnlessOpen, { try data.write(to: open, options: [.atomic, .completeFileProtectionUnlessOpen]) }),
        ]
        for (protectionClass, call) in calls { #expect(reason(call) == .locked(protectionClass, until: .unlock)) }
        #expect(try Data(contentsOf: open) == Data("text".utf8))
        #expect(try volume.names() == ["open"])
      }
    }

    /// A file whose key was revoked is deleted, created again and imported, atomically.
    @Test func revokedItemsAreRecreated() throws {
      let manager = FileManager.default
      try Volume.with { volume in
        let url = volume.url("diary")
        try Data("lost\n".utf8).write(to: url, options: .completeFileProtection)
        #expect(cocoaCode { try manager.recreateRevokedItem(at: url) { _ in } } == .fileWriteFileExists)
        #expect(try Data(contentsOf: url) == Data("lost\n".utf8))
        let erased = try volume.command(
          "erase", "--class", "complete", "--yes", "--passcode-file", volume.passcodeFile.description)
        try #require(erased.succeeded, "\(erased.output)")
        #expect(throws: CancellationError.self) {
          try manager.recreateRevokedItem(at: url) { file in
            try Data("half".utf8).write(to: file)
            throw CancellationError()
          }
        }
        #expect(try volume.names() == ["diary"])
        #expect(try volume.path("diary").status().size == 5)
        let copy = Data("from a copy\n".utf8)
        try manager.recreateRevokedItem(at: url) { try copy.write(to: $0, options: .atomic) }
        #expect(try Data(contentsOf: url) == copy)
        #expect(try manager.protection(ofItemAt: url) == .complete)
        #expect(try volume.names() == ["diary"])
      }
    }

    @Test func databaseFoldersGetTheirClass() throws {
      let manager = FileManager.default
      try Volume.with { volume in
        let url = volume.url("app/store/notes.sqlite")
        try manager.prepareDatabase(at: url, protection: .completeUnlessOpen)
        #expect(try manager.protection(ofItemAt: url.deletingLastPathComponent()) == .completeUnlessOpen)
        for suffix in ["", "-wal", "-shm", "-journal"] {
          try Data().write(to: volume.url("app/store/notes.sqlite\(suffix)"))
          #expect(
            try manager.protection(ofItemAt: volume.url("app/store/notes.sqlite\(suffix)")) == .completeUnlessOpen)
        }
        try Data().write(to: volume.url("app/store/other"))
        try manager.prepareDatabase(at: url, protection: .complete)
        for suffix in ["", "-wal", "-shm", "-journal"] {
          #expect(try manager.protection(ofItemAt: volume.url("app/store/notes.sqlite\(suffix)")) == .complete)
        }
        #expect(try manager.protection(ofItemAt: volume.url("app/store/other")) == .completeUnlessOpen)
      }
    }

    /// The options of Core Data's coordinator.
    @Test func databasesTakeTheirClassFromOptions() throws {
      let manager = FileManager.default
      try Volume.with { volume in
        let url = volume.url("store/notes.sqlite")
        try manager.prepareDatabase(
          at: url, options: [NSPersistentStoreFileProtectionKey: FileProtectionType.complete, "NSReadOnly": true])
        #expect(try manager.protection(ofItemAt: volume.url("store")) == .complete)
        let raw: [String: Any] = [NSPersistentStoreFileProtectionKey: FileProtectionType.completeUnlessOpen.rawValue]
        try manager.prepareDatabase(at: url, options: raw)
        #expect(try manager.protection(ofItemAt: volume.url("store")) == .completeUnlessOpen)
        let untyped: [AnyHashable: Any]? = [NSPersistentStoreFileProtectionKey: FileProtectionType.complete]
        try manager.prepareDatabase(at: url, options: untyped)
        #expect(try manager.protection(ofItemAt: volume.url("store")) == .complete)
        try manager.prepareDatabase(at: url, options: nil)
        try manager.prepareDatabase(at: url, options: raw)
        for options in [nil, [:], ["NSReadOnly": true]] as [[String: Any]?] {
          try manager.prepareDatabase(at: url, options: options)
          #expect(try manager.protection(ofItemAt: volume.url("store")) == .completeUnlessOpen)
        }
        for wrong in ["complete", 1] as [Any] {
          let code = cocoaCode {
            try manager.prepareDatabase(at: url, options: [NSPersistentStoreFileProtectionKey: wrong])
          }
          #expect(code == .featureUnsupported)
        }
        #expect(try manager.protection(ofItemAt: volume.url("store")) == .completeUnlessOpen)
      }
    }
  }
}
