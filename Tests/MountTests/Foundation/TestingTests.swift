import ProtectfsIO
import Testing

extension MountTests {
  /// A stand-in of DataProtectionTesting is to an app what a mount is: the same program has the same results on both.
  @Suite struct TestingTests {
    @Test func aStandInIsLikeAMount() throws {
      let mount = try Self.results(on: "mount")
      let standIn = try Self.results(on: "stand-in")
      #expect(mount == standIn)
      // It is not that neither does anything.
      for line in [
        "read A: diary", "event: unavailable", "read A: 257 locked A unlock", "read C: music",
        "field: 257 locked A unlock", "new A: 513 locked A unlock", "new B: ok",
        "replace a locked file: 513 locked A unlock", "read new B: 257 locked B unlock",
        "event: available", "read new B: new", "copyItem: ()", "replaced, content: 257 locked A unlock",
        "copy, content: 257 locked A unlock", "created, content: 257 locked A unlock",
        "replaced, field: field of replaced", "copy of a locked file: 257 locked A unlock",
        "class of a directory of locked files: ()", "removing a field: ()",
        "readable, writable: [true, true]", "mode: 644", "reading after that: 257 locked A unlock",
        "a class that is none: Invalid argument", "a new file in a locked directory: 513 locked A unlock",
        "reading by an open descriptor: 257", "mode at last: text of mode 600 NSFileProtectionComplete",
      ] {
        #expect(standIn.contains(line), "\(line)")
      }
    }

    private static func results(on backend: String) throws -> [String] {
      let probe = try Program.run(
        [Command.beside("TestingProbe")],
        environment: ["PROTECTFS_TESTING": backend, "PROTECTFS": Command.path], seconds: 120)
      #expect(probe.succeeded, "\(probe.output)")
      return probe.output.split(separator: "\n").map(String.init)
    }
  }
}
