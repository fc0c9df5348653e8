import DataProtection
import Foundation
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// Whatever has another class than the expected one is found, in each lock state.
  @Suite struct AuditTests {
    @Test func weakerItemsAreFound() async throws {
      let elsewhere = try TemporaryDirectory.make()
      defer { TemporaryDirectory.remove(elsewhere) }
      try elsewhere.appending("loose").write("text")
      let plain = try await ProtectedData.audit(
        URL(fileURLWithPath: elsewhere.description), expecting: .completeUntilFirstUserAuthentication)
      #expect(plain.findings.map(\.kind) == [.notProtected, .notProtected] && plain.failures.isEmpty)
      #expect(!plain.isClean)
    }

    @Test func treesAreExamined() throws {
      try Volume.with { volume in
        try volume.path("tree").makeDirectory(of: .complete)
        try volume.path("tree/deep").makeDirectory(of: .complete)
        try Data().write(to: volume.url("tree/deep/good"))
        try Data().write(to: volume.url("tree/open"), options: .noFileProtection)
        try Data().write(to: volume.url("tree/b"), options: .completeFileProtectionUnlessOpen)
        try volume.path("tree/link").makeSymbolicLink(to: "/etc/passwd")
        func audit(_ type: FileProtectionType) throws -> ProtectionAudit {
          try waiting { try await ProtectedData.audit(volume.url("tree"), expecting: type) }
        }
        for isLocked in [false, true] {
          if isLocked { try volume.lock() }
          let found = try audit(.complete)
          #expect(found.examined == 5 && found.failures.isEmpty)
          #expect(found.findings.map { URL(fileURLWithPath: $0.path).lastPathComponent } == ["b", "open"])
          #expect(found.findings.map(\.protectionClass) == [.completeUnlessOpen, ProtectionClass.none])
          #expect(found.findings.map(\.kind) == [.different, .weaker])
          #expect(try audit(FileProtectionType.none).findings.allSatisfy { $0.kind == .different })
        }
        #expect(
          cocoaCode { _ = try waiting { try await ProtectedData.audit(volume.url("missing"), expecting: .complete) } }
            == .fileReadNoSuchFile)
        let progress = Progress(totalUnitCount: 0)
        progress.cancel()
        #expect(throws: CancellationError.self) {
          try waiting {
            try await ProtectedData.audit(volume.url("tree"), expecting: .complete, progress: progress)
          }
        }
      }
    }

    /// What is mounted in a tree is part of it.
    @Test func mountsInTreesAreExamined() throws {
      try Volume.with { volume in
        try Data().write(to: volume.url("secret"), options: .completeFileProtection)
        let directory = URL(fileURLWithPath: volume.directory.description)
        let audit = try waiting { try await ProtectedData.audit(directory, expecting: .complete) }
        let paths = Set(audit.findings.map(\.path))
        #expect(paths.contains(volume.passcodeFile.description) && paths.contains(volume.mountPoint.description))
        #expect(!paths.contains(volume.url("secret").path))
      }
    }

    @Test func theCommandFindsTheSame() throws {
      try Volume.with { volume in
        try volume.path("tree").makeDirectory(of: .complete)
        try Data().write(to: volume.url("tree/good"))
        func run(_ arguments: String...) throws -> Program.Result {
          try Command.run(["class", "get"] + arguments + [volume.url("tree").path])
        }
        let clean = try run("-R", "--expect", "A")
        #expect(clean.succeeded && clean.output.isEmpty, "\(clean.output)")
        try Data().write(to: volume.url("tree/open"), options: .noFileProtection)
        let found = try run("-R", "--expect", "A", "--json")
        #expect(found.ending == .exited(28))
        #expect(found.output.contains(#""class":"none","expected":"complete","finding":"weaker","path":""#))
        let elsewhere = try Command.run(["class", "get", "--expect", "A", volume.passcodeFile.description])
        #expect(elsewhere.ending == .exited(28))
        #expect(elsewhere.output.contains("unprotected\t\(volume.passcodeFile)\n"))
        let missing = try Command.run(["class", "get", "-R", "--expect", "A", volume.url("missing").path])
        #expect(missing.ending == .exited(1))
      }
    }

    /// Waits for an asynchronous call.
    private func waiting<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) throws -> Value {
      let (done, result) = (DispatchSemaphore(value: 0), Box<Result<Value, any Error>>())
      Task.detached {
        do { result.set(.success(try await body())) } catch { result.set(.failure(error)) }
        done.signal()
      }
      done.wait()
      return try result.value!.get()
    }
  }
}

/// A value that is set once, before it is read.
private final class Box<Value>: @unchecked Sendable {
  private(set) var value: Value?

  func set(_ value: Value) { self.value = value }
}
