import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Files whose class key is gone: found, and removed.
  @Suite struct OrphanTests {
    @Test func listsExactlyThem() throws {
      try withOrphans { volume, orphans in
        let directory = volume.path("in")
        let times = try [directory, volume.path("in/kept"), volume.path("in/first")].map { try $0.accessTime() }
        let paths = try list(volume, "-0").split(separator: "\0").map(String.init).sorted()
        #expect(paths == orphans.map { volume.path($0).description }.sorted())
        #expect(try [directory, volume.path("in/kept"), volume.path("in/first")].map { try $0.accessTime() } == times)
        let lines = try list(volume).split(separator: "\n").map(String.init)
        #expect(lines.count == orphans.count, "\(lines)")
        #expect(lines.contains { $0.hasSuffix("a\\nname") })
        let objects = try list(volume, "--json")
        #expect(objects.contains(#""class":"complete","path":"\#(volume.path("in/first"))","size":5"#), "\(objects)")
      }
    }

    /// Locked files, restored files and other users' files are not orphans.
    @Test func locksMakeNone() throws {
      try withOrphans { volume, orphans in
        try volume.lock()
        let result = try Command.run(["orphans", "list", volume.mountPoint.description])
        #expect(result.succeeded && result.output.contains("1 file could not be looked at"), "\(result.output)")
        #expect(result.output.split(separator: "\n").count == orphans.count + 1, "\(result.output)")
      }
    }

    @Test(.enabled(if: Program.isInstalled("setpriv"), "setpriv is not installed"))
    func otherUsersFilesAreCounted() throws {
      try withOrphans { volume, orphans in
        try volume.mountPoint.setMode(0o755)
        try volume.path("in").setMode(0o755)
        // Two names of one file.
        try volume.path("in/first").setMode(0o600)
        let result = try Program.run([
          "setpriv", "--reuid", "1000", "--clear-groups", Command.path, "orphans", "list",
          volume.mountPoint.description,
        ])
        #expect(result.succeeded && result.output.contains("2 files could not be looked at"), "\(result.output)")
        #expect(result.output.split(separator: "\n").count == orphans.count - 2 + 1, "\(result.output)")
      }
    }

    @Test func purgeRemovesThemAndNothingElse() throws {
      try withOrphans { volume, orphans in
        let before = try volume.shellOutput("find . | sort")
        let refused = try Program.run(["setsid", Command.path, "orphans", "purge", volume.mountPoint.description])
        #expect(refused.ending == .exited(1) && refused.output.contains("--yes"), "\(refused.output)")
        #expect(try volume.shellOutput("find . | sort") == before)
        let result = try Command.run(["orphans", "purge", "--yes", volume.mountPoint.description])
        #expect(result.succeeded && result.output.contains("\(orphans.count) files removed"), "\(result.output)")
        for name in orphans { #expect(!volume.path(name).exists) }
        #expect(try volume.path("in/kept").contents() == Array("kept".utf8))
        #expect(try volume.path("in/new").contents() == Array("new".utf8))
        #expect(volume.path("in/fifo").exists && volume.path("link").exists)
        #expect(try list(volume).isEmpty)
        let again = try Command.run(["orphans", "purge", "--yes", volume.mountPoint.description])
        #expect(again.succeeded && again.output.contains("none"), "\(again.output)")
      }
    }

    /// The rest is removed nevertheless.
    @Test func purgeTellsWhatItCannotRemove() throws {
      try withOrphans { volume, orphans in
        for name in [".", "in", "in/below"] { try volume.path(name).setMode(0o755) }
        let result = try Program.run([
          "setpriv", "--reuid", "1000", "--clear-groups", Command.path, "orphans", "purge", "--yes",
          volume.mountPoint.description,
        ])
        // This user may see them, but not remove them.
        #expect(result.ending == .exited(15), "\(result.ending): \(result.output)")
        #expect(try list(volume).split(separator: "\n").count == orphans.count)
      }
    }

    private func list(_ volume: Volume, _ options: String...) throws -> String {
      let result = try Command.run(["orphans", "list", volume.mountPoint.description] + options)
      #expect(result.succeeded, "\(result.output)")
      return result.output
    }

    /// A tree in which the key of class A was erased.
    private func withOrphans(_ body: (Volume, [String]) throws -> Void) throws {
      try Volume.store { volume in
        try volume.mount()
        try volume.unlock()
        try volume.path("in").makeDirectory(of: .complete)
        try volume.path("in/below").makeDirectory()
        let orphans = ["in/first", "in/a\nname", "in/below/" + String(repeating: "n", count: 255), "in/second name"]
        for name in orphans.dropLast() { try volume.path(name).write("12345") }
        try volume.path("in/first").link(as: volume.path("in/second name"))
        try volume.path("in/kept").write("kept")
        try volume.path("in/kept").setProtectionClass(.completeUntilFirstUserAuthentication)
        try volume.path("in/fifo").makeNode(mode: 0o010644)
        try volume.path("link").makeSymbolicLink(to: "in/first")
        try volume.erase(.complete)
        try volume.path("in/new").write("new")
        for name in orphans {
          #expect(throws: Errno(rawValue: EKEYREVOKED)) { try OpenFile(volume.path(name), O_RDONLY) }
        }
        try body(volume, orphans)
      }
    }
  }
}

extension Volume {
  /// Erases the key of a class, so that its files have none.
  func erase(_ fileClass: ProtectionClass) throws {
    let result = try Command.run([
      "erase", "--yes", "--class", fileClass.name, "--recovery-key-file", recoveryKeyFile(), mountPoint.description,
    ])
    try #require(result.succeeded, "\(result.output)")
  }

  /// The output of a script.
  func shellOutput(_ script: String) throws -> String {
    let result = try Program.run(["bash", "-euo", "pipefail", "-c", script], in: mountPoint.description)
    try #require(result.succeeded, "\(script): \(result.output)")
    return result.output
  }
}

extension PathName {
  fileprivate func accessTime() throws(Errno) -> [Int64] {
    let status = try Descriptor.open(self, [.path, .noFollow]).status()
    return [status.access_seconds, Int64(status.access_nanoseconds)]
  }
}
