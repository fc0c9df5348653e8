import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// The view of a Swift program through Foundation, run by an unprivileged user: the errors of iOS.
  @Suite struct FoundationTests {
    /// `nobody`
    private static let user: UInt32 = 65534

    private static let calls: [(call: String, locked: String)] = [
      ("read-data", "cocoa 257"), ("read-string", "cocoa 257"), ("read-handle", "cocoa 257"),
      ("write", "cocoa 513"), ("write-atomic", "cocoa 513"),
    ]

    @Test func seesTheErrorsOfIOS() throws {
      try Volume.with { volume in
        try volume.mountPoint.setMode(0o755)
        let directory = volume.path("documents")
        try directory.makeDirectory(of: .complete)
        try directory.setOwner(user: Self.user, group: Self.user)
        for (call, _) in Self.calls {
          try directory.appending(call).write("Foundation was here\n")
          try directory.appending(call).setOwner(user: Self.user, group: Self.user)
        }
        try expect(in: directory) { _ in "ok" }
        try volume.lock()
        try expect(in: directory, Self.calls.reduce(into: [:]) { $0[$1.call] = $1.locked })
        #expect(try volume.status().refusals >= Self.calls.count)
        #expect(try directory.names().count == Self.calls.count, "a refused write left something behind")
        try volume.unlock()
        try expect(in: directory) { _ in "ok" }
      }
    }

    @Test func modesStillCount() throws {
      try Volume.with { volume in
        try volume.mountPoint.setMode(0o755)
        let file = volume.path("open")
        try file.write("Foundation was here\n")
        #expect(try Self.probe("read-data", file) == "ok")
        #expect(try Self.probe("write", file) == "cocoa 513")
      }
    }

    private func expect(in directory: PathName, _ answer: (String) -> String) throws {
      for (call, _) in Self.calls {
        let found = try Self.probe(call, directory.appending(call))
        #expect(found == answer(call), "\(call)")
      }
    }

    private func expect(in directory: PathName, _ answers: [String: String]) throws {
      try expect(in: directory) { answers[$0] ?? "" }
    }

    private static func probe(_ call: String, _ path: PathName) throws -> String {
      let result = try Program.run([Command.beside("FoundationProbe"), "\(user)", call, path.description])
      #expect(result.succeeded, "\(result.output)")
      return String(result.output.prefix { $0 != "\n" })
    }
  }
}
